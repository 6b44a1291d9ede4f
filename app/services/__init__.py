"""What the service does, one file a flow; a service function opens the database, and commits."""
