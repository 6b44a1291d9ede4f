"""Explaining as a service: the orders, the models in memory, the micro-batches, and the way to them over HTTP."""
