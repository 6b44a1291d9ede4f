"""Keys: made by admins for their own tenant; the first one of all when the service first starts."""

from uuid import UUID, uuid4

from app.db import keys, tenants
from app.db.engine import Database
from app.db.service_tables import Role
from app.db.types import AnyRow
from app.errors import ConflictError, NotFoundError
from app.keys import Keyring, NewKey
from app.ledger.ledger import utc_now
from app.resources import Resources
from app.services.paging import PageOrder, RowPage, cut


def make_key(resources: Resources, tenant_id: int, name: str, role: Role) -> tuple[NewKey, AnyRow]:
    """A new key of the tenant, and its row."""
    key, key_id = resources.keyring.make(), uuid4()
    with resources.database.writing() as connection:
        keys.add(connection, tenant_id, key_id, name, role, key, utc_now())
        row = keys.find(connection, tenant_id, key_id)
    assert row is not None
    return key, row


def list_keys(database: Database, tenant_id: int, order: PageOrder) -> RowPage:
    with database.reading() as connection:
        return cut(keys.page(connection, tenant_id, order.after, order.limit + 1), order.limit)


def revoke_key(resources: Resources, tenant_id: int, key_id: UUID) -> None:
    """The key works no more: at once here, within `key_cache_seconds` in other processes. Not the last admin's."""
    with resources.database.writing() as connection:
        tenants.lock(connection, tenant_id)
        row = keys.find(connection, tenant_id, key_id)
        if row is None:
            raise NotFoundError(f"there is no key {key_id}: see GET /keys")
        last = row.role == Role.ADMIN and row.revoked_at is None and keys.active_admins(connection, tenant_id) == 1
        if last:
            raise ConflictError("this is the last admin key, and only an admin makes keys: make another first")
        keys.revoke(connection, tenant_id, key_id, utc_now())
    resources.keys.forget()


def add_tenant(database: Database, keyring: Keyring, name: str) -> NewKey:
    """A new tenant and its admin key."""
    with database.writing() as connection:
        if tenants.find(connection, name) is not None:
            raise ConflictError(f"there is a tenant {name!r} already: choose another name")
        tenant_id = tenants.add(connection, name, utc_now())
        key = keyring.make()
        keys.add(connection, tenant_id, uuid4(), "first admin key", Role.ADMIN, key, utc_now())
    return key
