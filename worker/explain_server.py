"""The explainer's server: tasks of the API come in over HTTP, the resident explainer runs them.

`python -m worker.explain_server --host 127.0.0.1 --port 8100`, or as a part of `recourse worker`.
"""

import argparse
import hmac
import ipaddress
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

import structlog
import uvicorn
from cachetools import FIFOCache
from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app import logs
from app.concurrency import unless_gone
from app.connections import BoundedProtocol, allow_descriptors
from app.db.engine import open_database
from app.errors import AuthenticationError, ConflictError, UnavailableError
from app.explain import remote
from app.explain.contract import ExplainAnswer, Explainer, ExplainTask, VerifyAnswer, VerifyTask
from app.explain.engine.resident import open_resident
from app.settings import Settings
from models.errors import ConfigError, RecourseError
from worker.process import end_with_parent, refusing_in_one_sentence

T = TypeVar("T", ExplainTask, VerifyTask)

MOST_TASKS = 100_000
"""Tasks with queries that are remembered, so that none runs twice."""
KEEP_ALIVE_SECONDS = 75
"""Longer than the API keeps a connection: it never finds one closed that it thought open."""
GRACE_SECONDS = 60
JSON = "application/json"
logger = structlog.get_logger("recourse.explainer")


class ExplainServer:
    """What the routes do with one explainer."""

    def __init__(self, explainer: Explainer, key: str | None, registry: CollectorRegistry) -> None:
        self._explainer = explainer
        self._key = key
        self._registry = registry
        self._seen: FIFOCache[UUID, None] = FIFOCache(MOST_TASKS)

    async def explain(self, request: Request) -> Response:
        async def work(task: ExplainTask) -> ExplainAnswer:
            if task.asks:
                self._only_once(task.id)
            return await self._explainer.explain(task)

        return await self._answer(request, ExplainTask, work)

    async def verify(self, request: Request) -> Response:
        async def work(task: VerifyTask) -> VerifyAnswer:
            self._only_once(task.id)
            return await self._explainer.verify(task)

        return await self._answer(request, VerifyTask, work)

    async def state(self, request: Request) -> Response:
        try:
            self._check_caller(request)
        except (AuthenticationError, UnavailableError) as error:
            return Response(remote.write_error(error), 401 if isinstance(error, AuthenticationError) else 400)
        return Response(remote.write(await self._explainer.state()), media_type=JSON)

    async def live(self, request: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def ready(self, request: Request) -> Response:
        state = await self._explainer.state()
        return PlainTextResponse("ready\n") if state.ready else PlainTextResponse(f"{state.reason}\n", 503)

    async def metrics(self, request: Request) -> Response:
        return Response(generate_latest(self._registry), media_type="text/plain; version=0.0.4")

    async def _answer(
        self, request: Request, kind: type[T], work: Callable[[T], Coroutine[None, None, object]]
    ) -> Response:
        """What the work says, or its error by name; a caller who hangs up takes the task back."""
        try:
            self._check_caller(request)
            task = remote.read(kind, await request.body())
            return Response(remote.write(await unless_gone(request, work(task))), media_type=JSON)
        except RecourseError as error:
            return Response(remote.write_error(error), 400, media_type=JSON)
        except (KeyError, TypeError, ValueError) as error:
            logger.error("failed", exc_info=error)
            return Response(remote.write_error(error), 500, media_type=JSON)

    def _check_caller(self, request: Request) -> None:
        """The key, then whether both are of one release."""
        given = request.headers.get(remote.KEY_HEADER, "")
        if self._key is not None and not hmac.compare_digest(given.encode(), self._key.encode()):
            raise AuthenticationError("the worker has another key: set the same RECOURSE_WORKER_KEY on both sides")
        spoken = request.headers.get(remote.VERSION_HEADER, "1")
        if spoken != remote.VERSION:
            fact = f"the API speaks version {spoken} to its workers, this worker version {remote.VERSION}"
            raise UnavailableError(f"{fact}: run both from the same release")

    def _only_once(self, task_id: UUID) -> None:
        """A task that asks black boxes runs once: a second copy is refused, whatever became of the first."""
        if task_id in self._seen:
            raise ConflictError(f"task {task_id} was run already: what it asked is charged once")
        self._seen[task_id] = None


def make_app(explainer: Explainer, key: str | None, registry: CollectorRegistry) -> Starlette:
    """The routes around one explainer, which starts and ends with the server."""
    server = ExplainServer(explainer, key, registry)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        explainer.start()
        yield
        await explainer.close()

    return Starlette(
        routes=[
            Route("/explain", server.explain, methods=["POST"]),
            Route("/verify", server.verify, methods=["POST"]),
            Route("/state", server.state),
            Route("/livez", server.live),
            Route("/readyz", server.ready),
            Route("/metrics", server.metrics),
        ],
        lifespan=lifespan,
    )


def serve(settings: Settings, host: str, port: int) -> None:
    """Run until a signal; then finish what is in flight."""
    key = None if settings.worker_key is None else settings.worker_key.get_secret_value()
    if key is None and not _is_loopback(host):
        raise ConfigError(f"the explainer would be open to everyone on {host}: set RECOURSE_WORKER_KEY")
    allow_descriptors()
    database, registry = open_database(settings.database), CollectorRegistry()
    config = uvicorn.Config(
        make_app(open_resident(settings, database, registry), key, registry),
        host=host,
        port=port,
        loop="uvloop",
        http=BoundedProtocol,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    # uvicorn raises its signals once more when it has finished: this time nobody may die of them.
    for sent in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sent, server.handle_exit)
    logger.info("explaining", host=host, port=port)
    server.run()
    database.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def main(arguments: Sequence[str] | None = None) -> int:
    with refusing_in_one_sentence():
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="python -m worker.explain_server", description=__doc__)
    settings = Settings()
    parser.add_argument("--host", default=settings.explainer_host)
    parser.add_argument("--port", type=int, default=settings.explainer_port)
    parser.add_argument("--with-parent", action="store_true", help="end when stdin ends")
    options = parser.parse_args(arguments)
    logs.configure(settings)
    if options.with_parent:
        end_with_parent()
    serve(settings, options.host, options.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
