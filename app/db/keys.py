"""Queries on API keys."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, insert, select, update

from app.db.paging import Position, newest_first
from app.db.scoped import owned
from app.db.service_tables import ApiKey, Role
from app.db.types import AnyRow
from app.keys import NewKey


def add(
    connection: Connection, tenant_id: int, key_id: UUID, name: str, role: Role, key: NewKey, now: datetime
) -> None:
    """Keep a new key."""
    connection.execute(
        insert(ApiKey).values(
            id=key_id,
            tenant_id=tenant_id,
            name=name,
            role=role.value,
            prefix=key.prefix,
            digest=key.digest,
            created_at=now,
        )
    )


def find_by_digest(connection: Connection, digest: str) -> AnyRow | None:
    """The row (see `ApiKey`) of a key, of whichever tenant, revoked or not; the only query without a tenant."""
    table = ApiKey.__table__
    return connection.execute(select(table).where(table.c.digest == digest)).one_or_none()


def find(connection: Connection, tenant_id: int, key_id: UUID) -> AnyRow | None:
    table = ApiKey.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.id == key_id)).one_or_none()


def page(connection: Connection, tenant_id: int, after: Position | None, limit: int) -> list[AnyRow]:
    """The tenant's keys, newest first."""
    table = ApiKey.__table__
    return newest_first(connection, table, owned(table, tenant_id), after, limit)


def revoke(connection: Connection, tenant_id: int, key_id: UUID, now: datetime) -> None:
    """From now on the key opens nothing; a key that was revoked before keeps its time."""
    connection.execute(
        update(ApiKey)
        .where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id, ApiKey.revoked_at.is_(None))
        .values(revoked_at=now)
    )


def active_admins(connection: Connection, tenant_id: int) -> int:
    """How many admin keys of the tenant still work."""
    table = ApiKey.__table__
    admins = owned(table, tenant_id).where(table.c.role == Role.ADMIN.value, table.c.revoked_at.is_(None))
    return len(connection.execute(admins).all())
