"""One name, several workers: each is asked, one that went is forgotten, and a silent name server takes none away."""

import asyncio
import socket
from contextlib import ExitStack
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.explaining import addresses, wire
from app.explaining.addresses import Addresses
from app.explaining.protocol import ExplainerState
from app.explaining.remote import RemoteExplainer

STATE = ExplainerState(ready=True, reason=None, versions=1, queued_records=0, queue_limit=7, workers=1)


class NameServer:
    """What the name `worker` means; None: no answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *known: str) -> None:
        self.known: tuple[str, ...] | None = known
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.look_up)
        monkeypatch.setattr(addresses, "RESOLVE_SECONDS", 0.0)

    def look_up(self, host: str, port: int, *rest: Any, **named: Any) -> list[Any]:  # noqa: ANN401  # as in socket
        if host != "worker":
            return self._real(host, port, *rest, **named)
        if self.known is None:
            raise socket.gaierror("nobody answers")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.known]


async def settled(found: Addresses) -> list[str]:
    """After a lookup that began now."""
    await found.current()
    assert found._lookup is not None
    await found._lookup
    return await found.current()


def test_a_name_is_every_address_that_it_has_now(monkeypatch: pytest.MonkeyPatch) -> None:
    names = NameServer(monkeypatch, "10.0.0.2", "10.0.0.1", "10.0.0.2")

    async def run() -> None:
        found = Addresses(["http://worker:8100/", "http://10.0.0.9:1", "https://worker"])
        fixed = ["http://10.0.0.9:1", "https://worker"]
        assert await found.current() == ["http://10.0.0.1:8100", "http://10.0.0.2:8100", *fixed], "at the first call"
        names.known = ("10.0.0.2", "10.0.0.3")
        assert await settled(found) == ["http://10.0.0.2:8100", "http://10.0.0.3:8100", *fixed]
        names.known = None
        assert await settled(found) == ["http://10.0.0.2:8100", "http://10.0.0.3:8100", *fixed], "kept"
        await found.close()

    asyncio.run(run())


def test_every_worker_behind_a_name_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    NameServer(monkeypatch, "127.0.0.1", "127.0.0.2", "127.0.0.3")

    async def state(request: Request) -> Response:
        return Response(wire.write_state(STATE))

    async def run() -> ExplainerState:
        with ExitStack() as stack:
            first = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = first.getsockname()[1]
            second = stack.enter_context(socket.create_server(("127.0.0.2", port)))
            app = Starlette(routes=[Route("/state", state)])
            server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error"))
            serving = asyncio.create_task(server.serve(sockets=[first, second]))
            explainer = RemoteExplainer([f"http://worker:{port}"], None)
            found = await explainer.state()
            await explainer.close()
            server.should_exit = True
            await serving
            return found

    found = asyncio.run(run())
    assert (found.ready, found.workers, found.queue_limit) == (True, 2, 14), "the third does not answer"
