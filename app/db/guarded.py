"""A guarded UPDATE and the rows that must follow it, as one atomic step."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection, FromClause, Insert, Update, bindparam, make_url, select
from sqlalchemy.sql.dml import ReturningUpdate

from app.db.types import AnyRow

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

    def run(self, connection: Connection, parameters: Mapping[str, object]) -> AnyRow | None:
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
