"""What an operator runs beside the service: `recourse health`, `migrate`, `tenant` and `worker`."""

import http.client
import os
import sys
from contextlib import closing
from enum import StrEnum
from typing import Annotated

import typer

from app.auth.keyring import open_keyring
from app.auth.service import add_tenant
from app.db import migrations
from app.db.engine import open_database
from app.settings import ONE_THREAD, Settings

SECONDS = 8.0
READY = 200

tenants = typer.Typer(add_completion=False, no_args_is_help=True)


class Process(StrEnum):
    """Whose health it is."""

    API = "api"
    WORKER = "worker"


class Part(StrEnum):
    """What a worker does."""

    EXPLAIN = "explain"
    TRAIN = "train"


def health(process: Annotated[Process, typer.Argument(help="Which process to ask.")] = Process.API) -> None:
    """Ask the API or the worker's explainer on this machine for /readyz; exit 1 and say why if it is not ready.

    A container runs it as its health check: images have no curl.
    """
    settings = Settings()
    port = settings.serve_port if process is Process.API else settings.explainer_port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        typer.echo(f"port {port} does not answer: {error}")
        raise typer.Exit(1) from None
    finally:
        connection.close()
    typer.echo(said)
    raise typer.Exit(0 if answer.status == READY else 1)


def migrate() -> None:
    """Bring the database of RECOURSE_DATABASE_URL (else SQLite in RECOURSE_VAR_DIR) to the newest revision."""
    with closing(open_database(Settings().database)) as database:
        before = migrations.current_revision(database)
        migrations.upgrade(database)
        typer.echo(f"{before or 'empty'} -> {migrations.current_revision(database)}")


def worker(only: Annotated[Part | None, typer.Option(help="Do only this; by default both.")] = None) -> None:
    """Serve explanations and train models for an API that runs elsewhere; RECOURSE_... says where everything is.

    The process becomes `python -m worker`, because app does not import worker.
    """
    chosen = [] if only is None else ["--only", only.value]
    environment = {**ONE_THREAD, **os.environ}
    os.execve(sys.executable, [sys.executable, "-m", "worker", *chosen], environment)


@tenants.callback()
def tenant() -> None:
    """Tenants: lenders that share a service, and know nothing of each other."""


@tenants.command()
def add(name: str) -> None:
    """Make a tenant and print its first admin key, once."""
    settings = Settings()
    with closing(open_database(settings.database)) as database:
        typer.echo(add_tenant(database, open_keyring(settings), name).text)
