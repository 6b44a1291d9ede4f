"""Tests of the HTTP routes, over a real server."""
