"""The explainer's server: orders of the API come in over HTTP, the resident explainer runs them.

`python -m worker.explainer --host 127.0.0.1 --port 8100`, or as a part of `recourse worker`.
"""

import argparse
import asyncio
import hmac
import ipaddress
import signal
import sys
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias
from uuid import UUID

import structlog
import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app import logs, loop
from app.concurrency import unless_gone
from app.db.engine import open_database
from app.errors import AuthenticationError, ConflictError, UnavailableError
from app.explain import remote
from app.explain.contract import ExplainAnswer, Explainer, ExplainOrder
from app.explain.engine.resident import open_resident
from app.settings import Settings
from models.errors import ConfigError, RecourseError
from worker.process import end_with_parent

MOST_ORDERS = 100_000
"""Orders with queries that are remembered, so that none runs twice."""
KEEP_ALIVE_SECONDS = 75
"""Longer than the API keeps a connection: it never finds one closed that it thought open."""
GRACE_SECONDS = 60
Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]
logger = structlog.get_logger("recourse.explainer")


class ExplainerServer:
    """The routes around one explainer."""

    def __init__(self, explainer: Explainer, key: str | None, registry: CollectorRegistry) -> None:
        self._explainer = explainer
        self._key = key
        self._registry = registry
        self._seen: OrderedDict[UUID, None] = OrderedDict()
        self._routes: dict[tuple[str, str], Handler] = {
            ("POST", "/explain"): self.explain,
            ("POST", "/explain-many"): self.explain_many,
            ("POST", "/verify"): self.verify,
            ("GET", "/state"): self.state,
            ("GET", "/livez"): self.live,
            ("GET", "/readyz"): self.ready,
            ("GET", "/metrics"): self.metrics,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pure ASGI: a framework would take as long as the rest of what happens around a search."""
        request = Request(scope, receive, send)
        # The server leaves the body of an answer to HEAD out.
        handler = self._routes.get(("GET" if request.method == "HEAD" else request.method, scope["path"]))
        response = Response("Not Found\n", 404) if handler is None else await handler(request)
        await response(scope, receive, send)

    async def explain(self, request: Request) -> Response:
        async def work(body: bytes) -> bytes:
            order = remote.read_explain_order(body)
            if order.max_queries:
                self._only_once(order.order_id)
            return remote.write_explain_answer(await self._explainer.explain(order))

        return await self._answer(request, work)

    async def explain_many(self, request: Request) -> Response:
        """A bundle of orders without queries; each has its own answer or its own error."""

        async def work(body: bytes) -> bytes:
            orders = remote.read_explain_orders(body)
            if any(order.max_queries for order in orders):
                raise ConflictError("an order with queries travels alone: send it to /explain")
            if len(orders) == 1:
                return remote.write_outcomes([await self._outcome(orders[0])])
            return remote.write_outcomes(await asyncio.gather(*map(self._outcome, orders)))

        return await self._answer(request, work)

    async def _outcome(self, order: ExplainOrder) -> ExplainAnswer | Exception:
        try:
            return await self._explainer.explain(order)
        # Whatever it is, it is told in this order's place.
        except Exception as error:
            return error

    async def verify(self, request: Request) -> Response:
        async def work(body: bytes) -> bytes:
            order = remote.read_verify_order(body)
            self._only_once(order.order_id)
            return remote.write_verify_answer(await self._explainer.verify(order))

        return await self._answer(request, work)

    async def state(self, request: Request) -> Response:
        try:
            self._check_caller(request)
        except (AuthenticationError, UnavailableError) as error:
            return Response(remote.write_error(error), 401 if isinstance(error, AuthenticationError) else 400)
        return Response(remote.write_state(await self._explainer.state()), media_type="application/json")

    async def live(self, request: Request) -> Response:
        return Response("alive\n")

    async def ready(self, request: Request) -> Response:
        state = await self._explainer.state()
        return Response("ready\n") if state.ready else Response(f"{state.reason}\n", 503)

    async def metrics(self, request: Request) -> Response:
        return Response(generate_latest(self._registry), media_type="text/plain; version=0.0.4")

    async def _answer(self, request: Request, work: Callable[[bytes], Coroutine[Any, Any, bytes]]) -> Response:
        """What the work says, or its error by name; a caller who hangs up takes the order back."""
        try:
            self._check_caller(request)
            return Response(await unless_gone(request, work(await request.body())), media_type="application/json")
        except RecourseError as error:
            return Response(remote.write_error(error), 400, media_type="application/json")
        except (KeyError, TypeError, ValueError) as error:
            logger.error("failed", exc_info=error)
            return Response(remote.write_error(error), 500, media_type="application/json")

    def _check_caller(self, request: Request) -> None:
        """The key, then whether both are of one release."""
        given = request.headers.get(remote.KEY_HEADER, "")
        if self._key is not None and not hmac.compare_digest(given.encode(), self._key.encode()):
            raise AuthenticationError("the worker's key is another: set the same RECOURSE_WORKER_KEY on both sides")
        spoken = request.headers.get(remote.VERSION_HEADER, "1")
        if spoken != remote.VERSION:
            fact = f"the API speaks version {spoken} to its workers, this worker version {remote.VERSION}"
            raise UnavailableError(f"{fact}: run both from the same release")

    def _only_once(self, order_id: UUID) -> None:
        """An order that asks black boxes runs once: a second copy is refused, whatever became of the first."""
        if order_id in self._seen:
            raise ConflictError(f"order {order_id} was run already: what it asked is charged once")
        self._seen[order_id] = None
        if len(self._seen) > MOST_ORDERS:
            self._seen.popitem(last=False)


class _Server(uvicorn.Server):
    """Its signals are taken care of outside: it would die of them after it has finished, and nothing else could."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(settings: Settings, host: str, port: int) -> None:
    """Run until a signal; then finish what is in flight."""
    key = None if settings.worker_key is None else settings.worker_key.get_secret_value()
    if key is None and not _is_loopback(host):
        raise ConfigError(f"the explainer would be open to everyone on {host}: set RECOURSE_WORKER_KEY")
    database, registry = open_database(settings.database), CollectorRegistry()
    explainer = open_resident(settings, database, registry)
    app = ExplainerServer(explainer, key, registry)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        interface="asgi3",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )

    async def run() -> None:
        logger.info("explaining", host=host, port=port)
        explainer.start()
        server = _Server(config)
        running = asyncio.get_running_loop()
        for sent in (signal.SIGTERM, signal.SIGINT):
            running.add_signal_handler(sent, server.handle_exit, sent, None)
        await server.serve()
        await explainer.close()

    loop.run(run())
    database.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m worker.explainer", description=__doc__)
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
