"""Who is calling: the holder of an API key, or of a session of the dashboard.

A key's tenant and role are remembered for a few seconds, so that not every call reads the database; when keys were used
is written down once a minute, for the same reason. A session's cookie
names a key without being it, ends by itself, and proves nothing to other sites. It is encrypted with the keyring's
secret, and holds its own id, the tenant, the key's id and when it ends. Both ids are looked up on every use: signing
out ends the session, revoking the key ends all of its sessions.
"""

import hmac
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from threading import Lock
from uuid import UUID, uuid4

from cachetools import TTLCache

from app.auth import queries
from app.auth.keyring import Keyring
from app.db.engine import Database
from app.db.tables import AnyRow, Role, utc_now
from app.errors import AuthenticationError, ForbiddenError, UnavailableError

RANK = {role: rank for rank, role in enumerate((Role.VIEWER, Role.CLIENT, Role.ANALYST, Role.ADMIN))}


MOST_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a key."""

    tenant_id: int
    role: Role
    key_id: UUID
    expires_at: datetime | None = None


def holder_of(row: AnyRow, now: datetime) -> Principal:
    """The holder of a key with this row of `find_key`; AuthenticationError where the key does not work any more."""
    if row.revoked_at is not None:
        raise AuthenticationError(UNKNOWN)
    if row.expires_at is not None and row.expires_at <= now:
        raise AuthenticationError(f"the key expired on {row.expires_at:%Y-%m-%d %H:%M} UTC: ask an admin for a new one")
    if row.disabled_at is not None:
        raise AuthenticationError("the operator has disabled this lender, so its keys open nothing: ask the operator")
    return Principal(row.tenant_id, Role(row.role), row.id, row.expires_at)


UNKNOWN = "the key is unknown or revoked: ask an admin for a new one"


class KeyCache:
    """Keys that were looked up lately. A revoked key works until its entry is too old: `seconds` at most."""

    def __init__(
        self, database: Database, keyring: Keyring, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._keyring = keyring
        self._known: TTLCache[str, Principal] = TTLCache(MOST_ENTRIES, seconds, timer=clock)
        self._used: dict[UUID, datetime] = {}
        self._lock = Lock()

    def remembered(self, key: str) -> Principal | None:
        """The key's holder if it was looked up lately; touches no database."""
        now = utc_now()
        with self._lock:
            principal = self._known.get(self._keyring.digest(key))
            if principal is None or (principal.expires_at is not None and principal.expires_at <= now):
                return None
            self._used[principal.key_id] = now
            return principal

    def look_up(self, key: str) -> Principal:
        """The key's holder, from the database; AuthenticationError if it has none."""
        digest = self._keyring.digest(key)
        row = self._database.read(queries.find_key_by_digest, digest)
        with self._lock:
            self._known.pop(digest, None)
            if row is None:
                raise AuthenticationError(UNKNOWN)
            now = utc_now()
            principal = self._known[digest] = holder_of(row, now)
            self._used[principal.key_id] = now
        return principal

    def note_use(self, key_id: UUID) -> None:
        """The key's session was used."""
        with self._lock:
            self._used[key_id] = utc_now()

    def write_uses(self) -> None:
        """Keep in the database when keys were used; it blocks."""
        with self._lock:
            used, self._used = self._used, {}
        if used:
            with self._database.writing() as connection:
                queries.note_uses(connection, used)

    def forget(self) -> None:
        """Look every key up again: this process has just revoked one."""
        with self._lock:
            self._known.clear()


WINDOW_SECONDS = 60
MOST_WRONG, MOST_WRONG_IN_ALL = 10, 200
"""Wrong keys that one address may try at the sign-in in a minute, and all of them together."""


class Guesses:
    """Wrong keys at the sign-in, in this process, by where they came from.

    Beyond the limit no key is looked at, not even a right one, so that a guess tells nothing. A browser that signed in
    before is not locked out by others: it has a cookie that names the key it signed in with, and a limit of its own.
    Everybody else waits for the next minute.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._window, self._wrong = clock, 0, Counter[str]()

    def wait(self, place: str, known: bool) -> int:
        """Seconds until the place may try again; 0: now."""
        self._turn()
        full = self._wrong[place] >= MOST_WRONG or (not known and self._wrong.total() >= MOST_WRONG_IN_ALL)
        return 1 + int(WINDOW_SECONDS - self._clock() % WINDOW_SECONDS) if full else 0

    def count(self, place: str) -> None:
        self._turn()
        self._wrong[place] += 1

    def take_back(self, place: str) -> None:
        """The key was right after all."""
        if self._wrong[place] > 0:
            self._wrong[place] -= 1

    def _turn(self) -> None:
        window = int(self._clock() // WINDOW_SECONDS)
        if window != self._window:
            self._window, self._wrong = window, Counter()


def place_of(keyring: Keyring, device: str, address: str) -> tuple[str, bool]:
    """Where a key comes from: a browser that signed in before (True), else an address (False).

    An IPv6 address counts as its network of 64 bits, because one host has all of it.
    """
    with suppress(UnavailableError, ValueError):
        purpose, key_id = keyring.decrypt(device).split(" ")
        if purpose == DEVICE_PURPOSE:
            return key_id, True
    with suppress(ValueError):
        if ip_address(address).version == IPV6:
            address = str(ip_network(f"{address}/64", strict=False))
    return address, False


def remember_device(keyring: Keyring, principal: Principal) -> str:
    """The cookie of a browser that has signed in."""
    return keyring.encrypt(f"{DEVICE_PURPOSE} {principal.key_id}")


DEVICE_COOKIE, DEVICE_PURPOSE = "recourse_device", "device"
DEVICE_LIFETIME = timedelta(days=180)
IPV6 = 6
COOKIE = "recourse_session"
CSRF_HEADER = "X-CSRF-Token"
LIFETIME = timedelta(hours=12)
PURPOSE = "session"
OVER = "the session has ended: sign in again"


@dataclass(frozen=True, slots=True)
class _Session:
    """What the cookie holds."""

    id: UUID
    tenant_id: int
    key_id: UUID
    ends: datetime


def begin_session(keyring: Keyring, principal: Principal, now: datetime) -> str:
    """The cookie of a new session."""
    ends = int((now + LIFETIME).timestamp())
    return keyring.encrypt(f"{PURPOSE} {uuid4()} {principal.tenant_id} {principal.key_id} {ends}")


def resume_session(database: Database, keyring: Keyring, cookie: str, now: datetime) -> Principal:
    """The holder of the session; AuthenticationError where it is forged, over, signed out, or its key revoked."""
    session = _read_cookie(keyring, cookie)
    with database.reading() as connection:
        row = queries.find_key(connection, session.tenant_id, session.key_id)
        signed_out = queries.session_is_ended(connection, session.tenant_id, session.id)
    if signed_out or now >= session.ends:
        raise AuthenticationError(OVER)
    if row is None or row.revoked_at is not None:
        raise AuthenticationError("the key of this session was revoked: sign in with another")
    return holder_of(row, now)


def end_cookie_session(database: Database, keyring: Keyring, cookie: str) -> None:
    """End the session for every copy of the cookie; a cookie that is not ours is ignored."""
    try:
        session = _read_cookie(keyring, cookie)
    except AuthenticationError:
        return
    with database.writing() as connection:
        queries.end_session(connection, session.tenant_id, session.id, session.ends)


def _read_cookie(keyring: Keyring, cookie: str) -> _Session:
    try:
        purpose, session_id, tenant_id, key_id, ends = keyring.decrypt(cookie).split(" ")
    except (UnavailableError, ValueError) as error:
        raise AuthenticationError(OVER) from error
    if purpose != PURPOSE:
        raise AuthenticationError(OVER)
    return _Session(UUID(session_id), int(tenant_id), UUID(key_id), datetime.fromtimestamp(int(ends), UTC))


def csrf_token(keyring: Keyring, cookie: str) -> str:
    """What our own pages know of the session, and no other site."""
    return keyring.digest(f"csrf {cookie}")


def check_csrf(keyring: Keyring, cookie: str, token: str) -> None:
    if not hmac.compare_digest(csrf_token(keyring, cookie).encode(), token.encode()):
        raise ForbiddenError(f"a session may change things only with the header {CSRF_HEADER}: load the page again")
