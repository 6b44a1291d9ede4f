"""MLServer, and the model that it serves in the tests."""
