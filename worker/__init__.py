"""The processes that train and explain."""
