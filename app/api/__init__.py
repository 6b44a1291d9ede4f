"""The HTTP routes: a handler parses, calls one service function, shapes the reply."""
