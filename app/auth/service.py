"""Keys: made, rotated and revoked. The first start makes the default tenant and its admin key."""

from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import Connection

from app.auth import queries
from app.auth.keyring import Keyring, NewKey, read_keyring, replace_check_value, write_private
from app.auth.principals import holder_of
from app.db.engine import Database
from app.db.paging import found
from app.db.tables import OPERATOR_NAME, AnyRow, Role, utc_now
from app.errors import ConflictError
from app.settings import Settings
from models.errors import ConfigError


def make_key(
    database: Database,
    keyring: Keyring,
    tenant_id: int,
    name: str,
    role: Role,
    expires_at: datetime | None = None,
) -> tuple[NewKey, AnyRow]:
    """A new key of the tenant, and its row."""
    with database.writing() as connection:
        return add_key(connection, keyring, tenant_id, name, role, expires_at)


def add_key(
    connection: Connection,
    keyring: Keyring,
    tenant_id: int,
    name: str,
    role: Role,
    expires_at: datetime | None = None,
) -> tuple[NewKey, AnyRow]:
    """The same within a transaction."""
    key, key_id = keyring.make(), uuid4()
    queries.add_key(connection, tenant_id, key_id, name, role, key, utc_now(), expires_at)
    return key, found(queries.find_key(connection, tenant_id, key_id), f"key {key_id}")


def revoke_key(database: Database, tenant_id: int, key_id: UUID) -> None:
    """The key works no more, in other processes within `key_cache_seconds`. Not the last admin's."""
    now = utc_now()
    with database.writing() as connection:
        queries.lock_tenant(connection, tenant_id)
        row = found(queries.find_key(connection, tenant_id, key_id), f"key {key_id}: see GET /keys")
        works = row.revoked_at is None and (row.expires_at is None or row.expires_at > now)
        if row.role == Role.ADMIN and works and queries.active_admins(connection, tenant_id, now) == 1:
            raise ConflictError("this is the last admin key, and only an admin makes keys: make another first")
        queries.revoke_key(connection, tenant_id, key_id, now)


def rotate_key(database: Database, keyring: Keyring, tenant_id: int, key_id: UUID, grace: timedelta) -> NewKey:
    """A new key with the name and the role of the old one, which works for the time of grace and no longer."""
    now, key = utc_now(), keyring.make()
    with database.writing() as connection:
        queries.lock_tenant(connection, tenant_id)
        row = found(queries.find_key(connection, tenant_id, key_id), f"key {key_id}: see `recourse key list`")
        holder_of(row, now)
        queries.add_key(connection, tenant_id, uuid4(), row.name, Role(row.role), key, now)
        queries.end_key(connection, tenant_id, key_id, now + grace)
    return key


def add_tenant(database: Database, keyring: Keyring, name: str) -> NewKey:
    """A new tenant and its admin key."""
    if name == OPERATOR_NAME:
        raise ConflictError(f"{name!r} is the operator's own name: choose another")
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


def set_up(settings: Settings, database: Database, keyring: Keyring) -> Path | None:
    """Make the default tenant and an admin key where they are missing; the key's file, if it is one of our making.

    Processes that start together wait for each other at the tenant's row.
    """
    with database.writing() as connection:
        tenant_id = queries.ensure_tenant(connection, DEFAULT_TENANT, utc_now())
        queries.lock_tenant(connection, tenant_id)
        given = _given(settings, keyring)
        if given is None and queries.active_admins(connection, tenant_id, utc_now()):
            return None
        key = given or _kept(settings, keyring)
        if queries.find_key_by_digest(connection, key.digest) is None:
            queries.add_key(connection, tenant_id, uuid4(), "first admin key", Role.ADMIN, key, utc_now())
    return None if given is not None else settings.var_dir / ADMIN_FILE


def accept_new_secret(settings: Settings, database: Database) -> int:
    """Let the database expect the secret as it is now; how many keys that revokes. Their secret is lost."""
    keyring = read_keyring(settings)
    with database.writing() as connection:
        replace_check_value(connection, keyring)
        return queries.revoke_all(connection, utc_now())


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
