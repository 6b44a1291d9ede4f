"""Sessions of the dashboard: a cookie names a key without being it, ends by itself, and proves nothing to other sites.

The cookie is encrypted with the keyring's secret and holds its own id, the tenant, the key's id and when it ends. Both
ids are looked up on every use: to sign out ends the session, to revoke the key all of its sessions.
"""

import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from app.db import ended_sessions, keys
from app.db.engine import Database
from app.db.service_tables import Role
from app.errors import AuthenticationError, ForbiddenError, UnavailableError
from app.keys import Keyring
from app.services.key_cache import Principal

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


def begin(keyring: Keyring, principal: Principal, now: datetime) -> str:
    """The cookie of a new session."""
    ends = int((now + LIFETIME).timestamp())
    return keyring.encrypt(f"{PURPOSE} {uuid4()} {principal.tenant_id} {principal.key_id} {ends}")


def resume(database: Database, keyring: Keyring, cookie: str, now: datetime) -> Principal:
    """The holder of the session; AuthenticationError where it is forged, over, signed out, or its key revoked."""
    session = _read(keyring, cookie)
    with database.reading() as connection:
        row = keys.find(connection, session.tenant_id, session.key_id)
        signed_out = ended_sessions.is_ended(connection, session.tenant_id, session.id)
    if signed_out or now >= session.ends:
        raise AuthenticationError(OVER)
    if row is None or row.revoked_at is not None:
        raise AuthenticationError("the key of this session was revoked: sign in with another")
    return Principal(row.tenant_id, Role(row.role), row.id)


def end(database: Database, keyring: Keyring, cookie: str) -> None:
    """From now on the cookie opens nothing, whoever has a copy of it; one that is not ours is left alone."""
    try:
        session = _read(keyring, cookie)
    except AuthenticationError:
        return
    with database.writing() as connection:
        ended_sessions.add(connection, session.tenant_id, session.id, session.ends)


def _read(keyring: Keyring, cookie: str) -> _Session:
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
