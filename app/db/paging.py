"""Pages of a table, newest first, by position and not by number: rows that come or go in between move nothing.

Pages: a cursor is the position of the last row, in a form that callers hand back as it is.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, FromClause, Select, and_, or_

from app.db.tables import AnyRow
from app.errors import CursorError


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


DEFAULT_LIMIT = 50
MOST_ITEMS = 500


@dataclass(frozen=True, slots=True)
class PageOrder:
    """Which part of a list is wanted."""

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None

    @property
    def after(self) -> Position | None:
        return None if self.cursor is None else parse_position(self.cursor)

    @property
    def after_number(self) -> int:
        """The cursor of a list that is counted."""
        return 0 if self.cursor is None else parse_number(self.cursor)


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows, and the cursor of what follows; None at the end."""

    rows: Sequence[AnyRow]
    next: str | None


def cut(rows: Sequence[AnyRow], limit: int) -> RowPage:
    """The page of rows that were read with limit + 1: the one too many says that there is more."""
    if len(rows) <= limit:
        return RowPage(rows, None)
    last = rows[limit - 1]
    return RowPage(rows[:limit], write_position(Position(last.created_at, last.id)))


def write_position(position: Position) -> str:
    return _write_cursor(f"{position.at.isoformat()} {position.id.hex}")


def parse_position(cursor: str) -> Position:
    at, _, identity = _read_cursor(cursor).rpartition(" ")
    try:
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None:
            raise _nonsense(cursor)
        return Position(moment, UUID(identity))
    except ValueError as error:
        raise _nonsense(cursor) from error


def write_number(number: int) -> str:
    return _write_cursor(str(number))


def parse_number(cursor: str) -> int:
    text = _read_cursor(cursor)
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _nonsense(cursor)
    return int(text)


def _write_cursor(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> str:
    try:
        return urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)).decode()
    except ValueError as error:
        raise _nonsense(cursor) from error


def _nonsense(cursor: str) -> CursorError:
    return CursorError(f"the cursor {cursor[:40]!r} was not handed out here: pass `next` of the page before, unchanged")
