"""Keys: made and revoked by admins for their own tenant. The first start makes the default tenant and its admin key."""

from dataclasses import dataclass
from uuid import UUID, uuid4

from app.auth import queries
from app.auth.keyring import Keyring, NewKey, write_private
from app.auth.principals import KeyCache
from app.db.engine import Database
from app.db.paging import found
from app.db.tables import AnyRow, Role, utc_now
from app.errors import ConflictError
from app.settings import Settings
from models.errors import ConfigError


def make_key(database: Database, keyring: Keyring, tenant_id: int, name: str, role: Role) -> tuple[NewKey, AnyRow]:
    """A new key of the tenant, and its row."""
    key, key_id = keyring.make(), uuid4()
    with database.writing() as connection:
        queries.add_key(connection, tenant_id, key_id, name, role, key, utc_now())
        row = queries.find_key(connection, tenant_id, key_id)
    assert row is not None
    return key, row


def revoke_key(database: Database, keys: KeyCache, tenant_id: int, key_id: UUID) -> None:
    """The key works no more: at once here, within `key_cache_seconds` in other processes. Not the last admin's."""
    with database.writing() as connection:
        queries.lock_tenant(connection, tenant_id)
        row = found(queries.find_key(connection, tenant_id, key_id), f"key {key_id}: see GET /keys")
        last = row.role == Role.ADMIN and row.revoked_at is None and queries.active_admins(connection, tenant_id) == 1
        if last:
            raise ConflictError("this is the last admin key, and only an admin makes keys: make another first")
        queries.revoke_key(connection, tenant_id, key_id, utc_now())
    keys.forget()


def add_tenant(database: Database, keyring: Keyring, name: str) -> NewKey:
    """A new tenant and its admin key."""
    with database.writing() as connection:
        if queries.find_tenant(connection, name) is not None:
            raise ConflictError(f"there is a tenant {name!r} already: choose another name")
        tenant_id = queries.add_tenant(connection, name, utc_now())
        key = keyring.make()
        queries.add_key(connection, tenant_id, uuid4(), "first admin key", Role.ADMIN, key, utc_now())
    return key


DEFAULT_TENANT = "default"
ADMIN_FILE = "admin.key"
LEAST_KEY = 16


@dataclass(frozen=True, slots=True)
class FirstKey:
    """An admin key that was made just now, to be printed once."""

    text: str
    file: str


def set_up(settings: Settings, database: Database, keyring: Keyring) -> FirstKey | None:
    """Make the default tenant and an admin key where they are missing; the key, if it is one of our making.

    Processes that start together wait for each other at the tenant's row.
    """
    with database.writing() as connection:
        tenant_id = queries.ensure_tenant(connection, DEFAULT_TENANT, utc_now())
        queries.lock_tenant(connection, tenant_id)
        given = _given(settings, keyring)
        if given is None and queries.active_admins(connection, tenant_id):
            return None
        key = given or _kept(settings, keyring)
        if queries.find_key_by_digest(connection, key.digest) is None:
            queries.add_key(connection, tenant_id, uuid4(), "first admin key", Role.ADMIN, key, utc_now())
    return None if given is not None else FirstKey(key.text, str(settings.var_dir / ADMIN_FILE))


def _given(settings: Settings, keyring: Keyring) -> NewKey | None:
    if settings.admin_key is None:
        return None
    text = settings.admin_key.get_secret_value()
    if len(text) < LEAST_KEY or not text.isascii() or " " in text:
        raise ConfigError(f"RECOURSE_ADMIN_KEY must be {LEAST_KEY} or more ASCII characters without blanks")
    return keyring.describe(text)


def _kept(settings: Settings, keyring: Keyring) -> NewKey:
    """The key in VAR_DIR/admin.key, which is made if it is missing: a database may be younger than its key."""
    path = settings.var_dir / ADMIN_FILE
    write_private(path, keyring.make().text)
    return keyring.describe(path.read_text(encoding="utf-8").strip())
