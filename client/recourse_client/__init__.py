"""The Python client of the recourse service: `RecourseClient`, and `AsyncRecourseClient` to be awaited."""

from recourse_client.client import AsyncRecourseClient, ClientError, RecourseClient

__all__ = ["AsyncRecourseClient", "ClientError", "RecourseClient"]
