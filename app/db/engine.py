"""Where the database is, and how a connection to it is held: to read, to write, or to take one guarded step."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection as SqliteConnection

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from models.errors import ConfigError

SQLITE_BUSY_MS = 30_000
READ_ONLY = "recourse_read_only"


def open_engine(database_url: str, pool_size: int = 10) -> Engine:
    """An engine for a postgresql or sqlite URL; no connection is made yet."""
    url = make_url(database_url)
    match url.get_backend_name():
        case "postgresql":
            return create_engine(url.set(drivername="postgresql+psycopg"), pool_size=pool_size, max_overflow=pool_size)
        case "sqlite":
            return _open_sqlite(url, pool_size)
        case other:
            raise ConfigError(f"the database {other!r} is not supported: use postgresql:// or sqlite:///")


def _open_sqlite(url: URL, pool_size: int) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ConfigError("an SQLite database in memory cannot be shared: name a file, as in sqlite:///var/recourse.db")
    Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url.set(drivername="sqlite+pysqlite"), pool_size=pool_size, max_overflow=pool_size)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    """WAL, so that readers do not wait; FULL, because a dispatch that a power cut forgets would be a query too many."""
    assert isinstance(connection, SqliteConnection)
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", f"busy_timeout = {SQLITE_BUSY_MS}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    """Writers take the lock at once: a transaction that began by reading could fail when it comes to write."""
    mode = "DEFERRED" if connection.get_execution_options().get(READ_ONLY) else "IMMEDIATE"
    connection.exec_driver_sql(f"BEGIN {mode}")


class Database:
    """One database, and the three ways to hold a connection: the end of each `with` commits, an error rolls back."""

    def __init__(self, engine: Engine) -> None:
        sqlite = engine.dialect.name == "sqlite"
        self.engine = engine
        self._reader = engine.execution_options(
            **({READ_ONLY: True} if sqlite else {"isolation_level": "REPEATABLE READ"})
        )
        self._stepper = engine if sqlite else engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database for as long as it is held."""
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection in a transaction that may write."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def stepping(self) -> Iterator[Connection]:
        """A connection for exactly one `Guarded` step: on Postgres one statement, which needs no BEGIN and COMMIT."""
        with self._stepper.begin() as connection:
            yield connection

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()


def open_database(database_url: str, pool_size: int = 10) -> Database:
    """The database of a postgresql or sqlite URL; no connection is made yet."""
    return Database(open_engine(database_url, pool_size))
