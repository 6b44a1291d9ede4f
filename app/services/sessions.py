"""Sessions of the dashboard: a cookie names a key without being it, ends by itself, and proves nothing to other sites.

The cookie is encrypted with the keyring's secret and holds the tenant, the key's id and when it ends. The key is looked
up on every use: to revoke it ends its sessions too.
"""

import hmac
from datetime import datetime, timedelta
from uuid import UUID

from app.db import keys
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


def begin(keyring: Keyring, principal: Principal, now: datetime) -> str:
    """The cookie of a new session."""
    ends = int((now + LIFETIME).timestamp())
    return keyring.encrypt(f"{PURPOSE} {principal.tenant_id} {principal.key_id} {ends}")


def resume(database: Database, keyring: Keyring, cookie: str, now: datetime) -> Principal:
    """The holder of the session; AuthenticationError where it is forged, over, or its key revoked."""
    try:
        purpose, tenant_id, key_id, ends = keyring.decrypt(cookie).split(" ")
    except (UnavailableError, ValueError) as error:
        raise AuthenticationError(OVER) from error
    if purpose != PURPOSE or now.timestamp() >= int(ends):
        raise AuthenticationError(OVER)
    with database.reading() as connection:
        row = keys.find(connection, int(tenant_id), UUID(key_id))
    if row is None or row.revoked_at is not None:
        raise AuthenticationError("the key of this session was revoked: sign in with another")
    return Principal(row.tenant_id, Role(row.role), row.id)


def csrf_token(keyring: Keyring, cookie: str) -> str:
    """What our own pages know of the session, and no other site."""
    return keyring.digest(f"csrf {cookie}")


def check_csrf(keyring: Keyring, cookie: str, token: str) -> None:
    if not hmac.compare_digest(csrf_token(keyring, cookie).encode(), token.encode()):
        raise ForbiddenError(f"a session may change things only with the header {CSRF_HEADER}: load the page again")
