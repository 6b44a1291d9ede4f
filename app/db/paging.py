"""Lists in pages, and the 404 of what is not there.

A page begins behind the last row of the page before, so rows that come or go in between move nothing. The cursor holds
that row's place; callers hand it back as it is.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, FromClause, Select, and_, or_
from sqlalchemy.orm import InstrumentedAttribute

from app.db.tables import AnyRow
from app.errors import CursorError, NotFoundError


@dataclass(frozen=True, slots=True)
class Position:
    """The last row of a page: the next one begins behind it."""

    at: datetime
    id: UUID


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


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows, and the cursor of what follows; None at the end."""

    rows: Sequence[AnyRow]
    next: str | None


def page(connection: Connection, table: FromClause, statement: Select[*tuple[Any, ...]], order: PageOrder) -> RowPage:
    """A page of the statement's rows, newest first; the table and the rows have created_at and id."""
    if (after := order.after) is not None:
        same_moment = and_(table.c.created_at == after.at, table.c.id < after.id)
        statement = statement.where(or_(table.c.created_at < after.at, same_moment))
    ordered = statement.order_by(table.c.created_at.desc(), table.c.id.desc())
    return _cut(connection, ordered, order, lambda row: write_position(Position(row.created_at, row.id)))


def numbered_page(
    connection: Connection,
    number: InstrumentedAttribute[int],
    statement: Select[*tuple[Any, ...]],
    order: PageOrder,
    newest: bool = False,
) -> RowPage:
    """The same for rows that are counted: the lowest number first, or the highest."""
    if order.cursor is not None:
        last = parse_number(order.cursor)
        statement = statement.where(number < last if newest else number > last)
    ordered = statement.order_by(number.desc() if newest else number)
    return _cut(connection, ordered, order, lambda row: write_number(getattr(row, number.key)))


def _cut(
    connection: Connection, statement: Select[*tuple[Any, ...]], order: PageOrder, cursor: Callable[[AnyRow], str]
) -> RowPage:
    """One row more than wanted is read: it says that there is another page."""
    rows = connection.execute(statement.limit(order.limit + 1)).all()
    following = cursor(rows[order.limit - 1]) if len(rows) > order.limit else None
    return RowPage(rows[: order.limit], following)


def found(row: AnyRow | None, what: str) -> AnyRow:
    """The row of a query that finds at most one; NotFoundError says what the tenant has not."""
    if row is None:
        raise NotFoundError(f"there is no {what}")
    return row


def write_position(position: Position) -> str:
    return _write_cursor(f"{position.at.isoformat()} {position.id.hex}")


def parse_position(cursor: str) -> Position:
    at, _, identity = _read_cursor(cursor).rpartition(" ")
    try:
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None:
            raise _nonsense(cursor)
        # In UTC, as the database compares it: near the year 1 there may be no such moment.
        return Position(moment.astimezone(UTC), UUID(identity))
    except (ValueError, OverflowError) as error:
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
