"""The black boxes: the seven local models and the protocol that they share."""
