"""`recourse serve`: open the parts of the service, serve until a signal, finish what is in flight, close the parts."""

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from socket import socket
from threading import Event
from typing import Annotated

import structlog
import typer
import uvicorn

from app import logs
from app.artifacts import keep_private
from app.auth.keyring import open_keyring
from app.auth.service import set_up
from app.commands.console import notes
from app.commands.operate import read_settings
from app.connections import BoundedProtocol, allow_descriptors
from app.db import migrations
from app.db.engine import Database, open_database, told_to_operator
from app.explain.contract import Explainer
from app.explain.remote import RemoteExplainer
from app.main import create_app
from app.metrics import Metrics
from app.settings import Settings
from app.train.queue import RedisQueue, SpawnedQueue, TrainingQueue
from models.errors import ConfigError

GRACE_SECONDS = 30
logger = structlog.get_logger("recourse.serve")


def serve(
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; by default RECOURSE_SERVE_HOST, else 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="The port to listen on; 0 takes a free one; by default RECOURSE_SERVE_PORT, else 8000.",
            min=0,
            max=65535,
        ),
    ] = None,
) -> None:
    """Serve the API. With nothing configured everything runs here: SQLite, an explainer, a trainer."""
    settings = read_settings()
    logs.configure(settings)
    keep_private(settings)
    allow_descriptors()
    with closing(open_database(settings.database)) as database, _ending_by_itself() as told_to_end:
        with told_to_operator(database):
            prepare(settings, database)
        address = (settings.serve_host if host is None else host, settings.serve_port if port is None else port)
        _serve(settings, database, *address, told_to_end)


def prepare(settings: Settings, database: Database) -> None:
    """The tables and the first key. A database of our own is migrated here, a shared one by `recourse migrate`."""
    if database.engine.dialect.name == "sqlite":
        migrations.upgrade(database)
    elif migrations.current_revision(database) != migrations.newest_revision():
        raise ConfigError(
            f"the database is at revision {migrations.current_revision(database) or 'none'}, this program needs "
            f"{migrations.newest_revision()}: run `recourse migrate`"
        )
    file = set_up(settings, database, open_keyring(settings, database))
    if file is not None:
        # Never the key itself: what is printed here ends up in logs.
        notes().print(f"The first admin key is in {file}; only its owner may read it.", soft_wrap=True)


def _serve(settings: Settings, database: Database, host: str, port: int, told_to_end: Event) -> None:
    metrics = Metrics()
    explainer, queue = _open_explainer(settings, database, metrics), _open_queue(settings)
    server = _Server(
        uvicorn.Config(
            create_app(settings, database, explainer, queue, metrics),
            host,
            port,
            loop="uvloop",
            http=BoundedProtocol,
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    server.should_exit = told_to_end.is_set()
    try:
        server.run()
    except SystemExit as ended:
        fact = f"{host}:{port} cannot be listened on"
        raise ConfigError(f"{fact}: see the line above, or choose another --port") from ended


class _Server(uvicorn.Server):
    """It says where it serves, as soon as it does."""

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        host, port = self.config.host, self.servers[0].sockets[0].getsockname()[1]
        notes().print(f"recourse serves on http://{host}:{port} (the API's page: /docs)", soft_wrap=True)
        logger.info("serving", host=host, port=port)


def _open_explainer(settings: Settings, database: Database, metrics: Metrics) -> Explainer:
    """In workers where they are named, else in this process."""
    if settings.explainer_url is not None:
        urls = [url.strip() for url in settings.explainer_url.split(",") if url.strip()]
        key = settings.worker_key
        return RemoteExplainer(urls, None if key is None else key.get_secret_value())
    # It needs torch, which an API with workers has not.
    from app.explain.engine.resident import open_resident

    return open_resident(settings, database, metrics.registry)


def _open_queue(settings: Settings) -> TrainingQueue:
    if settings.redis_url is not None:
        return RedisQueue(settings.redis_url.get_secret_value())
    return SpawnedQueue(settings)


@contextmanager
def _ending_by_itself() -> Iterator[Event]:
    """uvicorn sends a signal on when it has shut down; without this it would end us before the parts are closed.

    A signal that comes before uvicorn listens for it is kept in the event.
    """
    signals, told_to_end = (signal.SIGINT, signal.SIGTERM), Event()
    before = [signal.signal(number, lambda *_: told_to_end.set()) for number in signals]
    try:
        yield told_to_end
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
