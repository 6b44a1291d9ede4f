"""What an operator runs beside the service: `recourse health`, `migrate` and `worker`.

`opened` is what all commands share that work on the database: what is wrong with it is one sentence.
"""

import http.client
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from app.artifacts import keep_private
from app.auth.keyring import open_keyring
from app.commands.console import notes
from app.db import migrations
from app.db.engine import Database, open_database, told_to_operator
from app.ledger.chain import ChainKey
from app.ledger.chain_check import begin_chains, is_unchained
from app.settings import ONE_THREAD, Settings, unknown_names
from models.errors import ConfigError

SECONDS = 8.0
READY = 200


class Process(StrEnum):
    """Whose health it is."""

    API = "api"
    WORKER = "worker"


class Purpose(StrEnum):
    """What an API may be ready for."""

    EXPLAINING = "explaining"
    TRAINING = "training"


class Part(StrEnum):
    """What a worker does."""

    EXPLAIN = "explain"
    TRAIN = "train"


def read_settings() -> Settings:
    """The settings; names that look like one and are none are told."""
    for sentence in unknown_names(os.environ):
        notes().print(sentence, soft_wrap=True)
    return Settings()


@contextmanager
def opened() -> Iterator[tuple[Settings, Database]]:
    """The settings and the database that they name."""
    settings = read_settings()
    keep_private(settings)
    with closing(open_database(settings.database)) as database, told_to_operator(database):
        yield settings, database


def health(
    process: Annotated[Process, typer.Argument(help="Which process to ask.")] = Process.API,
    purpose: Annotated[Purpose, typer.Option("--for", help="What the API should be ready for.")] = Purpose.EXPLAINING,
) -> None:
    """Ask the API or the worker's explainer on this machine for /readyz; exit 1 and say why if it is not ready.

    A container runs it as its health check: images have no curl.
    """
    settings = read_settings()
    port = settings.serve_port if process is Process.API else settings.explainer_port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", f"/readyz?for={purpose}" if process is Process.API else "/readyz")
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
    with opened() as (settings, database):
        before = migrations.current_revision(database)
        migrations.upgrade(database)
        typer.echo(f"{before or 'empty'} -> {migrations.current_revision(database)}")
        if database.read(is_unchained):
            typer.echo(_begin_chains(settings, database))


def _begin_chains(settings: Settings, database: Database) -> str:
    """A migration may run without the secret: then the first start of the service does it."""
    try:
        key = ChainKey(open_keyring(settings, database).ledger_secret)
    except ConfigError as error:
        return f"the chains over the ledger begin when the service starts ({error})"
    return f"the chains over the ledger begin: {begin_chains(database, key)} accounts are anchored as they are"


def worker(only: Annotated[Part | None, typer.Option(help="Do only this; by default both.")] = None) -> None:
    """Serve explanations and train models for an API that runs elsewhere; RECOURSE_... says where everything is.

    The process becomes `python -m worker`, because app does not import worker.
    """
    read_settings()
    chosen = [] if only is None else ["--only", only.value]
    environment = {**ONE_THREAD, **os.environ}
    os.execve(sys.executable, [sys.executable, "-m", "worker", *chosen], environment)
