"""Server-sent events for one caller, who takes one of its tenant's places while they are sent."""

from collections.abc import AsyncIterator
from functools import partial

from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from app.api.dependencies import identify
from app.services.live import Standing, StreamRoom


class LiveStream(EventSourceResponse):
    """The events, or OverloadedError before the first of them."""

    def __init__(self, events: AsyncIterator[ServerSentEvent], room: StreamRoom, tenant_id: int) -> None:
        super().__init__(events)
        self._room = room
        self._tenant_id = tenant_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._room.place(self._tenant_id):
            await super().__call__(scope, receive, send)


def standing_of(request: Request) -> Standing:
    """Of the key or the session that the request came with."""
    return Standing(partial(identify, request))
