"""One name, several workers: each is asked, one that went is forgotten, and a silent name server takes none away."""

import asyncio
import socket
import time
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import DeadlineError, UnavailableError
from app.explain import remote, workers
from app.explain.contract import ExplainAnswer, ExplainerState, ExplainOrder, RecordAnswer, VerifyOrder
from app.explain.remote import JOURNEYS, RemoteExplainer
from app.explain.workers import Addresses

STATE = ExplainerState(ready=True, reason=None, versions=1, queued_records=0, queue_limit=7, workers=1)


class NameServer:
    """What the name `worker` means; None: no answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *known: str) -> None:
        self.known: tuple[str, ...] | None = known
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.look_up)
        monkeypatch.setattr(workers, "RESOLVE_SECONDS", 0.0)

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


def test_an_order_that_waits_behind_others_ends_at_its_own_deadline() -> None:
    """Theirs may be minutes away, and they may be another tenant's."""

    hang_up = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hang_up.wait()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        explainer = RemoteExplainer([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"], None)

        def order(records: int, seconds: float) -> ExplainOrder:
            deadline = time.monotonic() + seconds
            return ExplainOrder(1, uuid4(), [{"income": 1}] * records, "yes", deadline=deadline)

        patient = [asyncio.create_task(explainer.explain(order(60, 300))) for _ in range(20)]
        await asyncio.sleep(0.1)
        with pytest.raises(DeadlineError):
            await asyncio.wait_for(explainer.explain(order(1, 0.3)), 10)
        for task in patient:
            task.cancel()
        await asyncio.gather(*patient, return_exceptions=True)
        hang_up.set()
        await explainer.close()
        server.close()

    asyncio.run(scenario())


def test_an_order_with_queries_that_failed_in_a_worker_goes_to_no_other() -> None:
    """What the first has asked is charged; the second would ask anew."""
    seen = list[int]()

    async def fail(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        seen.append(1)
        writer.write(b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        servers = [await asyncio.start_server(fail, "127.0.0.1", 0) for _ in range(2)]
        explainer = RemoteExplainer([f"http://127.0.0.1:{one.sockets[0].getsockname()[1]}" for one in servers], None)
        with pytest.raises(UnavailableError, match="what it asked is charged"):
            await explainer.verify(VerifyOrder(1, uuid4(), [{"income": 1}]))
        assert len(seen) == 1
        with pytest.raises(UnavailableError, match="not an answer"):
            await explainer.explain(ExplainOrder(1, uuid4(), [{"income": 1}], "yes"))
        assert len(seen) == 3, "one without queries does no harm"
        await explainer.close()
        for server in servers:
            server.close()

    asyncio.run(scenario())


def test_a_large_order_does_not_travel_in_the_place_of_small_ones() -> None:
    """It takes a worker minutes; in the meantime others are answered in between."""
    seen, go = list[str](), asyncio.Event()

    async def work(request: Request) -> Response:
        seen.append(request.url.path)
        orders = remote.read_explain_orders(await request.body()) if request.url.path.endswith("many") else []
        if not orders or len(orders[0].records) > 1:
            await go.wait()
        answer = ExplainAnswer((RecordAnswer("infeasible", 0, b"{}"),))
        return Response(remote.write_outcomes([answer] * len(orders)))

    async def scenario() -> None:
        app = Starlette(routes=[Route(path, work, methods=["POST"]) for path in ("/explain", "/explain-many")])
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.02)
        explainer = RemoteExplainer([f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"], None)
        large = ExplainOrder(1, uuid4(), [{"income": 1}] * 1000, "yes", k=10)
        waiting = [asyncio.create_task(explainer.explain(large)) for _ in range(3 * JOURNEYS)]
        while len(seen) < JOURNEYS:
            await asyncio.sleep(0.02)
        small = await asyncio.wait_for(explainer.explain(ExplainOrder(1, uuid4(), [{"income": 1}], "yes")), 10)
        assert small.records[0].status == "infeasible" and seen[-1] == "/explain-many"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        go.set()
        await explainer.close()
        server.should_exit = True
        await serving

    asyncio.run(scenario())


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
        return Response(remote.write_state(STATE))

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
