"""Pages of a table, newest first, by position and not by number: rows that come or go in between move nothing."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, FromClause, Select, and_, or_

from app.db.types import AnyRow


@dataclass(frozen=True, slots=True)
class Position:
    """The last row of a page: the next one begins behind it."""

    at: datetime
    id: UUID


def newest_first(
    connection: Connection,
    table: FromClause,
    statement: Select[*tuple[Any, ...]],
    after: Position | None,
    limit: int,
) -> list[AnyRow]:
    """Up to `limit` rows of the statement behind `after`; the table has created_at and id."""
    if after is not None:
        same_moment = and_(table.c.created_at == after.at, table.c.id < after.id)
        statement = statement.where(or_(table.c.created_at < after.at, same_moment))
    ordered = statement.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit)
    return list(connection.execute(ordered).all())
