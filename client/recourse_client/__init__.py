"""The Python client of the recourse service: `RecourseClient`, and `AsyncRecourseClient` to be awaited."""

from recourse_client.calls import ClientError
from recourse_client.client import AsyncRecourseClient, RecourseClient

__all__ = ["AsyncRecourseClient", "ClientError", "RecourseClient"]
