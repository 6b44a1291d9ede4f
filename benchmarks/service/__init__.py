"""How much of the engine's speed reaches a client of the service."""
