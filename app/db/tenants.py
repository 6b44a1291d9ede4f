"""Queries on tenants."""

from datetime import datetime

from sqlalchemy import Connection, insert, select

from app.db.tables import Tenant


def add(connection: Connection, name: str, now: datetime) -> int:
    """Make a tenant; its id."""
    statement = insert(Tenant).values(name=name, created_at=now).returning(Tenant.id)
    return connection.execute(statement).scalar_one()


def find(connection: Connection, name: str) -> int | None:
    """The id of the tenant of that name, or None."""
    return connection.execute(select(Tenant.id).where(Tenant.name == name)).scalar_one_or_none()
