"""Queries on tenants."""

from datetime import datetime

from sqlalchemy import Connection, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from app.db.tables import Tenant


def add(connection: Connection, name: str, now: datetime) -> int:
    """Make a tenant; its id."""
    statement = insert(Tenant).values(name=name, created_at=now).returning(Tenant.id)
    return connection.execute(statement).scalar_one()


def find(connection: Connection, name: str) -> int | None:
    """The id of the tenant of that name, or None."""
    return connection.execute(select(Tenant.id).where(Tenant.name == name)).scalar_one_or_none()


def ensure(connection: Connection, name: str, now: datetime) -> int:
    """The id of the tenant of that name, which is made if it is missing."""
    put = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    connection.execute(put(Tenant).values(name=name, created_at=now).on_conflict_do_nothing())
    return connection.execute(select(Tenant.id).where(Tenant.name == name)).scalar_one()


def lock(connection: Connection, tenant_id: int) -> None:
    """Hold the tenant's row until the transaction ends: what must happen one after the other, does."""
    connection.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update())
