"""Who is calling: a key's tenant and role, remembered for a few seconds so that not every call reads the database."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from app.db import keys
from app.db.engine import Database
from app.db.service_tables import Role
from app.errors import AuthenticationError
from app.keys import Keyring

MOST_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a key."""

    tenant_id: int
    role: Role
    key_id: UUID


class KeyCache:
    """Keys that were looked up lately. A revoked key works until its entry is too old: `seconds` at most."""

    def __init__(
        self, database: Database, keyring: Keyring, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._keyring = keyring
        self._seconds = seconds
        self._clock = clock
        self._known: dict[str, tuple[float, Principal]] = {}

    def remembered(self, key: str) -> Principal | None:
        """The key's holder if it was looked up lately; touches no database."""
        entry = self._known.get(self._keyring.digest(key))
        return entry[1] if entry is not None and self._clock() < entry[0] else None

    def look_up(self, key: str) -> Principal:
        """The key's holder, from the database; AuthenticationError if it has none."""
        digest = self._keyring.digest(key)
        with self._database.reading() as connection:
            row = keys.find_by_digest(connection, digest)
        if row is None or row.revoked_at is not None:
            self._known.pop(digest, None)
            raise AuthenticationError("the key is unknown or revoked: ask an admin for a new one")
        principal = Principal(row.tenant_id, Role(row.role), row.id)
        if len(self._known) >= MOST_ENTRIES:
            self._known.clear()
        self._known[digest] = (self._clock() + self._seconds, principal)
        return principal

    def forget(self) -> None:
        """Look every key up anew: this process has just revoked one."""
        self._known.clear()
