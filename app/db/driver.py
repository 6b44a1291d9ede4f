"""Past SQLAlchemy, for the few statements of every request: it takes longer to run a small statement than the database.

What SQLAlchemy knows is still used: its pool, its SQL, its types, the names of its errors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

from sqlalchemy import Dialect, Engine
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

Parameters: TypeAlias = Mapping[str, object]
Values: TypeAlias = tuple[object, ...] | dict[str, object]
Bind: TypeAlias = Callable[[Any], Any]
SQLITE = "sqlite"


class Prepared:
    """A statement whose SQL and types are worked out once for each database; `names` of an insert's columns."""

    def __init__(self, statement: ClauseElement, names: Sequence[str] | None = None) -> None:
        self._statement, self._names = statement, names
        self._compiled: dict[str, _Compiled] = {}

    def compiled(self, dialect: Dialect) -> "_Compiled":
        found = self._compiled.get(dialect.name)
        if found is None:
            found = self._compiled[dialect.name] = _Compiled(self._statement, self._names, dialect)
        return found


class _Compiled:
    """The SQL, and the driver's values for a statement's parameters."""

    def __init__(self, statement: ClauseElement, names: Sequence[str] | None, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=None if names is None else list(names))
        assert isinstance(compiled, SQLCompiler)
        self.sql = str(compiled)
        types = {name: bind.type.dialect_impl(dialect) for name, bind in compiled.binds.items()}
        self._positional = compiled.positiontup is not None
        self._binds: list[tuple[str, Bind | None]] = [
            (name, types[name].bind_processor(dialect)) for name in compiled.positiontup or types
        ]

    def values(self, parameters: Parameters) -> Values:
        bound = {name: parameters[name] if bind is None else bind(parameters[name]) for name, bind in self._binds}
        return tuple(bound.values()) if self._positional else bound


class Driver:
    """A cursor in a transaction."""

    def __init__(self, cursor: DBAPICursor, dialect: Dialect) -> None:
        self._cursor, self._dialect = cursor, dialect

    def finds(self, statement: Prepared, parameters: Parameters) -> bool:
        """Whether the statement selects a row."""
        compiled = statement.compiled(self._dialect)
        self._cursor.execute(compiled.sql, compiled.values(parameters))
        return self._cursor.fetchone() is not None

    def write(self, statement: Prepared, rows: Sequence[Parameters]) -> None:
        """Run the statement once for each row."""
        compiled = statement.compiled(self._dialect)
        if len(rows) == 1:
            self._cursor.execute(compiled.sql, compiled.values(rows[0]))
        else:
            # All rows have the one form or the other.
            values = cast(list[dict[str, object]], [compiled.values(row) for row in rows])
            self._cursor.executemany(compiled.sql, values)


@contextmanager
def driving(engine: Engine) -> Iterator[Driver]:
    """A transaction that may write: the end commits, an error rolls back, and is one of SQLAlchemy's."""
    dialect = engine.dialect
    failed = dialect.loaded_dbapi.Error
    connection: PoolProxiedConnection | None = None
    try:
        connection = engine.raw_connection()
        cursor = connection.cursor()
        if dialect.name == SQLITE:
            cursor.execute("BEGIN IMMEDIATE")
        yield Driver(cursor, dialect)
        cursor.close()
        connection.commit()
    except failed as error:
        if connection is not None and dialect.is_disconnect(error, connection, None):
            connection.invalidate(error)
        raise DBAPIError.instance(None, None, error, failed, hide_parameters=True, dialect=dialect) from error
    finally:
        if connection is not None:
            # Back to the pool, which rolls back what was not committed.
            connection.close()
