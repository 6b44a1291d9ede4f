"""Queries on sessions that were signed out of before their time."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, delete
from sqlalchemy.dialects import postgresql, sqlite

from app.db.scoped import owned
from app.db.service_tables import EndedSession


def add(connection: Connection, tenant_id: int, session_id: UUID, until: datetime) -> None:
    """The session opens nothing any more; to end it twice is fine. Kept `until` it would have ended by itself."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    row = insert(EndedSession).values(id=session_id, tenant_id=tenant_id, until=until)
    connection.execute(row.on_conflict_do_nothing())


def is_ended(connection: Connection, tenant_id: int, session_id: UUID) -> bool:
    table = EndedSession.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.id == session_id)).one_or_none() is not None


def drop_past(connection: Connection, now: datetime) -> int:
    """Forget those that would be over by now anyway, of all tenants; how many."""
    return connection.execute(delete(EndedSession).where(EndedSession.until < now)).rowcount
