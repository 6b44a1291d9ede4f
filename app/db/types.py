"""Column types that behave alike on SQLite and on Postgres."""

from datetime import UTC, datetime
from typing import Any, TypeAlias

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, Row
from sqlalchemy.types import TypeDecorator

BIG_ID = BigInteger().with_variant(Integer(), "sqlite")
"""A 64-bit key that SQLite, too, counts up by itself."""

DOCUMENT = JSON(none_as_null=True)
"""A JSON document; None is NULL, and not the document `null`."""

Document: TypeAlias = Any
"""What a JSON column holds: whoever wrote it knows its form, and checks it when it is read back."""

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
"""A row whose columns the table names."""


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC: aware on the way in and on the way out, whatever the database keeps."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"the time {value.isoformat()} has no time zone: pass an aware datetime")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
