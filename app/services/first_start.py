"""The first start: the default tenant and its first admin key."""

from dataclasses import dataclass
from uuid import uuid4

from app.db import keys, tenants
from app.db.engine import Database
from app.db.service_tables import Role
from app.keys import Keyring, NewKey, write_private
from app.ledger.ledger import utc_now
from app.settings import Settings
from models.errors import ConfigError

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
        tenant_id = tenants.ensure(connection, DEFAULT_TENANT, utc_now())
        tenants.lock(connection, tenant_id)
        given = _given(settings, keyring)
        if given is None and keys.active_admins(connection, tenant_id):
            return None
        key = given or _kept(settings, keyring)
        if keys.find_by_digest(connection, key.digest) is None:
            keys.add(connection, tenant_id, uuid4(), "first admin key", Role.ADMIN, key, utc_now())
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
