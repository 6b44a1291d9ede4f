"""What the service does for everybody else while somebody attacks it."""
