"""Callers who hang up: what they asked for is dropped, so that nobody waits for an answer that nobody reads."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from app.errors import DeadlineError

T = TypeVar("T")


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, which is cancelled when the caller hangs up. The body must have been read."""
    working, gone = asyncio.current_task(), False
    assert working is not None
    before = working.cancelling()

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            continue
        gone = True
        working.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        # Whoever else cancelled it as well goes first.
        if gone and working.uncancel() <= before:
            raise DeadlineError("the caller hung up before the answer was there") from None
        raise
    finally:
        watching.cancel()
