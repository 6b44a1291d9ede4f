"""The connection to the database, SQLite or Postgres: to read, to write, or to take one guarded step.

While the database is away, `retry_database` waits a little, then says so: nothing goes on without it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import structlog
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    FromClause,
    Insert,
    Row,
    Update,
    bindparam,
    create_engine,
    event,
    make_url,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.dml import ReturningUpdate
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from app.errors import LedgerUnavailableError
from models.errors import ConfigError

P = ParamSpec("P")
T = TypeVar("T")

SQLITE_BUSY_MS = 30_000
STATEMENT_MS = 30_000
"""A statement that takes longer, for example because of a lock, is given up: both databases answer or fail."""
IDLE_MS = 60_000
"""A transaction that does nothing for so long is ended by Postgres, whatever became of who began it."""
POOL_SECONDS = 10
"""How long a connection is waited for where all are taken."""
CONNECT_SECONDS = 5
# hide_parameters, below: the parameters of a statement are records and digests, and an error's text ends up in a log.


def open_database(database_url: str, pool_size: int = 10) -> "Database":
    """The database of a postgresql or sqlite URL; no connection is made yet.

    Half of 2 * `pool_size` connections read, half write, as many again take steps, and two look after the health: none
    of these takes another's.
    """
    try:
        url = make_url(database_url)
    except ArgumentError as error:
        fact = "RECOURSE_DATABASE_URL is not the URL of a database"
        raise ConfigError(f"{fact}: write postgresql://user:password@host/database") from error
    half = max(1, pool_size // 2)
    match url.get_backend_name():
        case "postgresql":
            opened = partial(_open_postgres, url.set(drivername="postgresql+psycopg"))
            # The ledger tries a step again by itself, and to switch a connection to autocommit and back would cost
            # more than the step: these connections stay so, and are not asked whether they are alive.
            return Database(
                engine=opened(half, pool_pre_ping=True),
                reader=opened(half, pool_pre_ping=True, isolation_level="REPEATABLE READ"),
                stepper=opened(pool_size, isolation_level="AUTOCOMMIT", pool_reset_on_return=None),
                checker=opened(1, pool_pre_ping=True, isolation_level="REPEATABLE READ"),
            )
        case "sqlite":
            opened = partial(_open_sqlite, url.set(drivername="sqlite+pysqlite"))
            return Database(opened(half), opened(half, "DEFERRED"), opened(pool_size), opened(1, "DEFERRED"))
        case other:
            raise ConfigError(f"the database {other!r} is not supported: use postgresql:// or sqlite:///")


def _open_postgres(url: URL, pool_size: int, **options: object) -> Engine:
    """`pool_pre_ping`: a connection is asked whether it is alive, so that a restart of the server is not noticed."""
    limits = f"-c statement_timeout={STATEMENT_MS} -c idle_in_transaction_session_timeout={IDLE_MS}"
    return create_engine(
        url,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=POOL_SECONDS,
        hide_parameters=True,
        connect_args={"connect_timeout": CONNECT_SECONDS, "options": limits},
        **options,
    )


def _open_sqlite(url: URL, pool_size: int, begin: str = "IMMEDIATE") -> Engine:
    """IMMEDIATE takes the writers' lock at once: what began by reading could fail when it comes to write."""
    if not url.database or url.database == ":memory:":
        raise ConfigError("an SQLite database in memory cannot be shared: name a file, as in sqlite:///var/recourse.db")
    path = Path(url.database)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):
        # Applicants' records are in it; what SQLite puts beside it gets the same mode.
        path.touch(mode=0o600)
        path.chmod(0o600)
    pool = {"pool_size": pool_size, "max_overflow": pool_size, "pool_timeout": POOL_SECONDS}
    engine = create_engine(url, hide_parameters=True, **pool)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(f"BEGIN {begin}"))
    return engine


def _set_up_sqlite(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    """WAL, so that readers do not wait; FULL, because a dispatch that a power cut forgets would be a query too many."""
    assert isinstance(connection, SqliteConnection)
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", f"busy_timeout = {SQLITE_BUSY_MS}"):
        connection.execute(f"PRAGMA {pragma}")


class Database:
    """One database, and the ways to hold a connection: the end of each `with` commits, an error rolls back.

    Each way has connections of its own: whoever reads does not wait for writers, and the ledger for neither.
    """

    def __init__(self, engine: Engine, reader: Engine, stepper: Engine, checker: Engine) -> None:
        self.engine = engine
        self.reader = reader
        self.stepper = stepper
        self.checker = checker

    @contextmanager
    def reading(self, long: bool = False) -> Iterator[Connection]:
        """A connection that sees one state of the database for as long as it is held; `long`: without a time limit."""
        with self.reader.begin() as connection:
            if long:
                allow_time(connection)
            yield connection

    def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What one query finds."""
        with self.reading() as connection:
            return query(connection, *args, **kwargs)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection in a transaction that may write."""
        with self.engine.begin() as connection:
            yield connection

    def stepping(self) -> AbstractContextManager[Connection]:
        """A connection for exactly one `Guarded` step: on Postgres one statement, which needs no BEGIN and COMMIT."""
        return self.stepper.begin() if self.stepper.dialect.name == "sqlite" else self.stepper.connect()

    @contextmanager
    def holding(self) -> Iterator[Connection]:
        """A connection for a step that first has to look at the row which it will change, and holds it meanwhile."""
        if self.stepper.dialect.name == "sqlite":
            with self.stepper.begin() as connection:
                yield connection
            return
        with self.stepper.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                # These connections are not reset when they are given back.
                try:
                    connection.exec_driver_sql("ROLLBACK")
                except Exception:
                    connection.invalidate()
                raise

    def check(self, query: Callable[[Connection], T]) -> T:
        """What a query of the health checks finds, however busy all other connections are."""
        with self.checker.begin() as connection:
            return query(connection)

    def close(self) -> None:
        """Give back every connection."""
        for engine in (self.engine, self.reader, self.stepper, self.checker):
            engine.dispose()


def allow_time(connection: Connection) -> None:
    """Lift the time limit on the statements of this transaction: a migration, or the check of a whole ledger."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")


RETRY_SECONDS = 0.1
logger = structlog.get_logger("recourse.database")
FAILURES = (OperationalError, InterfaceError, ProgrammingError, PoolTimeoutError)
SQLITE_MISSING = ("no such table", "no such column")
"""Messages of SQLite for tables that are not there yet; Postgres reports these as an error of the program."""


def retry_database(action: Callable[[], T], patience: timedelta) -> T:
    """The action's result; while the database is away it is tried again, then `LedgerUnavailableError`.

    A try that broke off may have been committed, so the action must be one that is safe to repeat.
    """
    tries = Retrying(
        retry=retry_if_exception(_is_away),
        stop=stop_after_delay(patience),
        wait=wait_fixed(RETRY_SECONDS),
        reraise=True,
    )
    try:
        return tries(action)
    except FAILURES as error:
        # Callers of the API read this: what the driver says names the database's host, and is for the log.
        logger.warning("database failed", reason=_cause(error))
        if _is_away(error):
            waited = f"did not answer within {patience.total_seconds():g} s"
            sentence = f"the ledger's database {waited}, so nothing was asked: try later"
        else:
            sentence = "the ledger's tables are not as expected: the operator has to run `recourse migrate`"
        raise LedgerUnavailableError(sentence) from error


@contextmanager
def told_to_operator(database: Database) -> Iterator[None]:
    """What the database fails with becomes one sentence for the operator's terminal: where it is and what it said."""
    try:
        yield
    except (*FAILURES, DatabaseError, LedgerUnavailableError) as error:
        cause = error.__cause__ if isinstance(error, LedgerUnavailableError) else error
        if isinstance(cause, FAILURES) or type(cause) is DatabaseError:
            where = f"the database {database.engine.url.render_as_string()}"
            if _is_away(cause) or type(cause) is DatabaseError:
                fact = f"{where} cannot be used ({_cause(cause)})"
                raise ConfigError(f"{fact}: start it, or correct RECOURSE_DATABASE_URL or RECOURSE_VAR_DIR") from error
            raise ConfigError(f"{where} is not at this release ({_cause(cause)}): run `recourse migrate`") from error
        raise


def _is_away(error: BaseException) -> bool:
    """Whether another try may help: not where a table or a column is missing."""
    return isinstance(error, (OperationalError, InterfaceError, PoolTimeoutError)) and not _cause(error).startswith(
        SQLITE_MISSING
    )


def _cause(error: DBAPIError | PoolTimeoutError) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).partition("\n")[0]


def insert_for(connection: Connection, table: type[DeclarativeBase]) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that can say ON CONFLICT, in the database's own dialect."""
    return (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(table)


def insert_or_ignore(connection: Connection, table: type[DeclarativeBase], **values: object) -> Row[Any] | None:
    """Insert a row and return its primary key; None if there is a row with the same unique key already."""
    key = table.__table__.primary_key
    statement = insert_for(connection, table).values(values).on_conflict_do_nothing().returning(*key)
    return connection.execute(statement).one_or_none()


Guard: TypeAlias = ReturningUpdate[*tuple[Any, ...]]
Follower: TypeAlias = Insert | Update
Follow: TypeAlias = Callable[[FromClause], Sequence[Follower]]


class Guarded:
    """If, and only if, the guard finds its row, the followers run with what the guard returned.

    Postgres gets one statement, the guard being a CTE: one round trip, and the lock is held no longer than the commit.
    SQLite cannot write inside a CTE, so there the same statements run one after the other, inside the transaction.
    """

    def __init__(self, guard: Guard, follow: Follow) -> None:
        self._guard = guard
        self._single, self._constants = _single_statement(guard, follow)
        self._returned = tuple(column.name for column in guard.exported_columns)
        self._followers = tuple(follow(_as_parameters(guard)))

    def run(self, connection: Connection, parameters: Mapping[str, object]) -> Row[*tuple[Any, ...]] | None:
        """What the guard returned, or None if it found no row and nothing was done."""
        if connection.dialect.name == "postgresql":
            return connection.exec_driver_sql(self._single, {**self._constants, **parameters}).one_or_none()
        row = connection.execute(self._guard, parameters).one_or_none()
        if row is not None:
            found = {_returned_name(name): value for name, value in zip(self._returned, row, strict=True)}
            for follower in self._followers:
                connection.execute(follower, {**parameters, **found})
        return row


def _single_statement(guard: Guard, follow: Follow) -> tuple[str, dict[str, object]]:
    """The SQL for Postgres and the values in it that never change, compiled once and not looked up at each step."""
    guarded = guard.cte("guarded")
    statement = select(guarded)
    for number, follower in enumerate(follow(guarded)):
        statement = statement.add_cte(follower.cte(f"follower_{number}"))
    compiled = statement.compile(dialect=make_url("postgresql+psycopg://").get_dialect()())
    return str(compiled), {name: value for name, value in compiled.params.items() if value is not None}


def _as_parameters(guard: Guard) -> FromClause:
    """The guard's row as a subquery of bound values."""
    columns = guard.exported_columns
    return select(*(bindparam(_returned_name(c.name), type_=c.type).label(c.name) for c in columns)).subquery("guarded")


def _returned_name(column: str) -> str:
    return f"guarded_{column}"
