"""The service on a free port, in a thread of the test's process: real HTTP, and a debugger still works."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from app.connections import BoundedProtocol
from tests.patience import BOUND


@contextmanager
def serving(
    app: ASGIApp,
    at_end: Callable[[], Coroutine[Any, Any, None]] | None = None,
    protocol: type[asyncio.Protocol] = BoundedProtocol,
) -> Iterator[str]:
    """The URL of the application while it is served; it finishes what it has begun, then does `at_end` on its loop."""
    config = uvicorn.Config(app, port=0, http=protocol, log_level="error", lifespan="off", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)

    async def serve() -> None:
        await server.serve()
        if at_end is not None:
            await at_end()

    thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    end = time.monotonic() + BOUND
    while not server.started and thread.is_alive() and time.monotonic() < end:
        time.sleep(0.005)
    assert server.started, "the server did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=BOUND)
