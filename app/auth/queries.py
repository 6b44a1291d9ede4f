"""Queries on tenants, their API keys, and the sessions that were signed out of before their time."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, delete, insert, select, update

from app.auth.keyring import NewKey
from app.db.engine import insert_or_ignore
from app.db.paging import PageOrder, RowPage, page
from app.db.tables import AnyRow, ApiKey, EndedSession, Role, Tenant, owned


def add_key(
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


def find_key_by_digest(connection: Connection, digest: str) -> AnyRow | None:
    """The row (see `ApiKey`) of a key, of whichever tenant, revoked or not; the only query without a tenant."""
    table = ApiKey.__table__
    return connection.execute(select(table).where(table.c.digest == digest)).one_or_none()


def find_key(connection: Connection, tenant_id: int, key_id: UUID) -> AnyRow | None:
    table = ApiKey.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.id == key_id)).one_or_none()


def keys_page(connection: Connection, tenant_id: int, order: PageOrder) -> RowPage:
    """The tenant's keys, newest first."""
    table = ApiKey.__table__
    return page(connection, table, owned(table, tenant_id), order)


def revoke_key(connection: Connection, tenant_id: int, key_id: UUID, now: datetime) -> None:
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


def add_tenant(connection: Connection, name: str, now: datetime) -> int:
    """Make a tenant; its id."""
    statement = insert(Tenant).values(name=name, created_at=now).returning(Tenant.id)
    return connection.execute(statement).scalar_one()


def find_tenant(connection: Connection, name: str) -> int | None:
    """The id of the tenant of that name, or None."""
    return connection.execute(select(Tenant.id).where(Tenant.name == name)).scalar_one_or_none()


def ensure_tenant(connection: Connection, name: str, now: datetime) -> int:
    """The id of the tenant of that name, which is made if it is missing."""
    insert_or_ignore(connection, Tenant, name=name, created_at=now)
    return connection.execute(select(Tenant.id).where(Tenant.name == name)).scalar_one()


def lock_tenant(connection: Connection, tenant_id: int) -> None:
    """Hold the tenant's row until the transaction ends: what must happen one after the other, does."""
    connection.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update())


def end_session(connection: Connection, tenant_id: int, session_id: UUID, until: datetime) -> None:
    """The session opens nothing any more; to end it twice is fine. Kept `until` it would have ended by itself."""
    insert_or_ignore(connection, EndedSession, id=session_id, tenant_id=tenant_id, until=until)


def session_is_ended(connection: Connection, tenant_id: int, session_id: UUID) -> bool:
    table = EndedSession.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.id == session_id)).one_or_none() is not None


def drop_past_sessions(connection: Connection, now: datetime) -> int:
    """Forget those that would be over by now anyway, of all tenants; how many."""
    return connection.execute(delete(EndedSession).where(EndedSession.until < now)).rowcount
