"""One name, several workers: each is asked, one that went is forgotten, and a silent name server takes none away."""

import asyncio
import math
import socket
import time
from collections.abc import Awaitable, Callable
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
from app.explain import remote
from app.explain.contract import ExplainAnswer, ExplainerState, ExplainRequest, ExplainTask, RecordAnswer, VerifyTask
from app.explain.remote import Addresses, RemoteExplainer
from models.errors import ConfigError
from tests.patience import BOUND

STATE = ExplainerState(ready=True, reason=None, versions=1, queued_records=0, queue_limit=7, workers=1)


class NameServer:
    """What the name `worker` means; None: no answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *known: str) -> None:
        self.known: tuple[str, ...] | None = known
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.look_up)
        monkeypatch.setattr(remote, "RESOLVE_SECONDS", 0.0)

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


def new_task(records: int = 1, seconds: float = math.inf) -> ExplainTask:
    request = ExplainRequest(model="loans", records=[{"income": 1}] * records, target="yes")
    return ExplainTask(request, 1, uuid4(), time.monotonic() + seconds)


def test_a_task_that_a_silent_worker_has_ends_after_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with many others under way, whose deadlines are far."""
    monkeypatch.setattr(remote, "SLACK_SECONDS", 0.2)

    hang_up = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hang_up.wait()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        explainer = RemoteExplainer([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"], None)
        patient = [asyncio.create_task(explainer.explain(new_task(60, 300))) for _ in range(120)]
        await asyncio.sleep(0.1)
        with pytest.raises(DeadlineError):
            await asyncio.wait_for(explainer.explain(new_task(1, 0.3)), BOUND)
        for task in patient:
            task.cancel()
        await asyncio.gather(*patient, return_exceptions=True)
        hang_up.set()
        await explainer.close()
        server.close()

    asyncio.run(scenario())


def test_an_order_with_queries_that_failed_in_a_worker_goes_to_no_other() -> None:
    """What the first has asked is charged; the second would ask again."""
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
            await explainer.verify(VerifyTask(1, uuid4(), [{"income": 1}]))
        assert len(seen) == 1
        with pytest.raises(UnavailableError, match="not an answer"):
            await explainer.explain(new_task())
        assert len(seen) == 3, "one without queries does no harm"
        await explainer.close()
        for server in servers:
            server.close()

    asyncio.run(scenario())


class Worker:
    """A worker that finds nothing for anybody; it counts connections and who hung up while it waited."""

    def __init__(self) -> None:
        self.begun, self.dropped, self.go = 0, 0, asyncio.Event()
        self.callers = set[tuple[str, int] | None]()
        self.go.set()

    async def explain(self, request: Request) -> Response:
        self.begun += 1
        self.callers.add(request.client and (request.client.host, request.client.port))
        task = remote.read(ExplainTask, await request.body())
        waiting = asyncio.create_task(self.go.wait())
        while not waiting.done():
            if await request.is_disconnected():
                self.dropped += 1
                break
            await asyncio.sleep(0.01)
        answer = ExplainAnswer((RecordAnswer("infeasible", 0, b"{}"),) * len(task.request.records))
        return Response(remote.write(answer))


def serving(worker: Worker, work: Callable[[RemoteExplainer], Awaitable[None]]) -> None:
    async def scenario() -> None:
        app = Starlette(routes=[Route("/explain", worker.explain, methods=["POST"])])
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
        running = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.02)
        explainer = RemoteExplainer([f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"], None)
        try:
            async with asyncio.timeout(BOUND):
                await work(explainer)
        finally:
            await explainer.close()
            server.should_exit = True
            await running

    asyncio.run(scenario())


def test_a_connection_is_used_again() -> None:
    worker = Worker()

    async def work(explainer: RemoteExplainer) -> None:
        for size in (1, 3, 2):
            assert len((await explainer.explain(new_task(size))).records) == size
        assert len(worker.callers) == 1

    serving(worker, work)


def test_who_gives_up_hangs_up_and_the_next_gets_its_own_answer() -> None:
    worker = Worker()

    async def work(explainer: RemoteExplainer) -> None:
        worker.go.clear()
        impatient = asyncio.create_task(explainer.explain(new_task(5)))
        while not worker.begun:
            await asyncio.sleep(0.01)
        impatient.cancel()
        while not worker.dropped:
            await asyncio.sleep(0.01)
        worker.go.set()
        assert len((await explainer.explain(new_task(2))).records) == 2

    serving(worker, work)


def test_a_key_that_cannot_be_sent_is_told() -> None:
    with pytest.raises(ConfigError, match="X-Worker-Key holds a line break"):
        RemoteExplainer(["http://127.0.0.1:1"], "two\nlines")


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
        return Response(remote.write(STATE))

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
