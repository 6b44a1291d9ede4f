"""Queries on tenants, their API keys, and the sessions that were signed out of before their time.

A key works while it is not revoked, its time is not over, and its tenant is not disabled.
"""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, or_, select, update

from app.auth.keyring import NewKey
from app.db.engine import insert_or_ignore
from app.db.paging import PageOrder, RowPage, page
from app.db.tables import OPERATOR, OPERATOR_NAME, AnyRow, ApiKey, EndedSession, Role, Tenant, owned
from app.errors import ConflictError


def add_key(
    connection: Connection,
    tenant_id: int,
    key_id: UUID,
    name: str,
    role: Role,
    key: NewKey,
    now: datetime,
    expires_at: datetime | None = None,
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
            expires_at=expires_at,
        )
    )


def find_key_by_digest(connection: Connection, digest: str) -> AnyRow | None:
    """The row of a key as in `find_key`, of whichever tenant; the only query without a tenant."""
    table = ApiKey.__table__
    statement = select(table, Tenant.disabled_at).join(Tenant, Tenant.id == table.c.tenant_id)
    return connection.execute(statement.where(table.c.digest == digest)).one_or_none()


def find_key(connection: Connection, tenant_id: int, key_id: UUID) -> AnyRow | None:
    """The row (see `ApiKey`) of a key, whether it works or not, and `disabled_at` of its tenant."""
    table = ApiKey.__table__
    statement = owned(table, tenant_id, Tenant.disabled_at.label("disabled_at")).join(
        Tenant, Tenant.id == table.c.tenant_id
    )
    return connection.execute(statement.where(table.c.id == key_id)).one_or_none()


def find_keys_named(connection: Connection, tenant_id: int, prefix: str) -> list[AnyRow]:
    """The tenant's keys that begin with rk_ and the prefix."""
    table = ApiKey.__table__
    return list(connection.execute(owned(table, tenant_id).where(table.c.prefix == prefix)))


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


def revoke_all(connection: Connection, now: datetime) -> int:
    """Revoke every key of every tenant; how many worked."""
    return connection.execute(update(ApiKey).where(ApiKey.revoked_at.is_(None)).values(revoked_at=now)).rowcount


def end_key(connection: Connection, tenant_id: int, key_id: UUID, at: datetime) -> None:
    """The key works until then at most."""
    later = or_(ApiKey.expires_at.is_(None), ApiKey.expires_at > at)
    statement = update(ApiKey).where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id, later)
    connection.execute(statement.values(expires_at=at))


def note_uses(connection: Connection, uses: Mapping[UUID, datetime]) -> None:
    """When each key was used last; another process may know of a later time."""
    at = bindparam("at", type_=ApiKey.last_used_at.type)
    earlier = or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at < at)
    statement = update(ApiKey).where(ApiKey.id == bindparam("key_id"), earlier).values(last_used_at=at)
    connection.execute(statement, [{"key_id": key_id, "at": moment} for key_id, moment in uses.items()])


def active_admins(connection: Connection, tenant_id: int, now: datetime) -> int:
    """How many admin keys of the tenant still work."""
    admins = select(func.count()).where(ApiKey.tenant_id == tenant_id, ApiKey.role == Role.ADMIN.value, _works(now))
    return connection.execute(admins).scalar_one()


def _works(now: datetime) -> ColumnElement[bool]:
    return and_(ApiKey.revoked_at.is_(None), or_(ApiKey.expires_at.is_(None), ApiKey.expires_at > now))


def list_tenants(connection: Connection, now: datetime) -> list[AnyRow]:
    """name, created_at, disabled_at and the number of keys that work, of every lender by its name."""
    keys = select(func.count()).where(ApiKey.tenant_id == Tenant.id, _works(now)).scalar_subquery().label("keys")
    statement = select(Tenant.id, Tenant.name, Tenant.created_at, Tenant.disabled_at, keys)
    return list(connection.execute(statement.where(Tenant.id != OPERATOR).order_by(Tenant.name)))


def disable_tenant(connection: Connection, tenant_id: int, at: datetime | None) -> None:
    """Refuse all of the tenant's keys from `at` on; None lets them work again."""
    connection.execute(update(Tenant).where(Tenant.id == tenant_id).values(disabled_at=at))


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


def ensure_operator(connection: Connection, now: datetime) -> None:
    """The operator's own tenant, which is made if it is missing."""
    insert_or_ignore(connection, Tenant, id=OPERATOR, name=OPERATOR_NAME, created_at=now, disabled_at=now)
    if connection.execute(select(Tenant.id).where(Tenant.id == OPERATOR)).first() is None:
        raise ConflictError(f"a lender is called {OPERATOR_NAME}, which is the operator's own name here: rename it")


def lock_tenant(connection: Connection, tenant_id: int) -> None:
    """Hold the tenant's row until the transaction ends: what must happen one after the other, does."""
    connection.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(key_share=True))


def end_session(connection: Connection, tenant_id: int, session_id: UUID, until: datetime) -> None:
    """The session opens nothing any more; to end it twice is fine. Kept `until` it would have ended by itself."""
    insert_or_ignore(connection, EndedSession, id=session_id, tenant_id=tenant_id, until=until)


def session_is_ended(connection: Connection, tenant_id: int, session_id: UUID) -> bool:
    table = EndedSession.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.id == session_id)).one_or_none() is not None


def drop_past_sessions(connection: Connection, now: datetime) -> int:
    """Forget those that would be over by now anyway, of all tenants; how many."""
    return connection.execute(delete(EndedSession).where(EndedSession.until < now)).rowcount
