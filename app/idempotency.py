"""Idempotency-Key: a request that is sent again under its key gets the answer of the first, and nothing happens twice.

Only answers that succeeded are kept: a request that failed may be sent again as it is. What it had asked the lender's
models by then stays charged, and is not charged again: those answers are kept (app/ensembles/bought.py).
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from anyio import CancelScope, to_thread
from sqlalchemy import ColumnElement, Connection, and_, delete, select, update

from app.db.engine import Database, insert_or_ignore
from app.db.tables import Idempotency, utc_now
from app.errors import InFlightError, ReusedKeyError

REPLAYED = "Idempotent-Replayed"


@dataclass(frozen=True, slots=True)
class KeyedBody:
    """The key that a request came with, and the digest of its body."""

    key: str
    digest: str

    @classmethod
    def of(cls, key: str, body: bytes) -> "KeyedBody":
        return cls(key, hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, slots=True)
class StoredReply:
    """An answer as it is sent: the JSON text of its body."""

    status: int
    body: str
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A key on a route; `created_at` tells one try from the next, so that an old one cannot answer for a new one."""

    tenant_id: int
    route: str
    key: str
    body_digest: str
    created_at: datetime


class IdempotentRequests:
    """Answers a request once a key. `open_seconds`: after that a request that never ended counts as crashed."""

    def __init__(self, database: Database, open_seconds: float) -> None:
        self._database = database
        self._patience = timedelta(seconds=open_seconds)

    async def run(
        self, tenant_id: int, route: str, keyed: KeyedBody | None, work: Callable[[], Awaitable[StoredReply]]
    ) -> StoredReply:
        """The answer of `work`, or of the request that came with the same key before. The database has a thread."""
        if keyed is None:
            return await work()
        use = KeyUse(tenant_id, route, keyed.key, keyed.digest, utc_now())
        beginning = asyncio.ensure_future(to_thread.run_sync(self._begin, use))
        try:
            # When the caller hangs up the thread goes on: what it has written by then is forgotten below.
            earlier = await asyncio.shield(beginning)
            reply = earlier or await work()
        except BaseException:
            with CancelScope(shield=True):
                await asyncio.wait((beginning,))
                if beginning.exception() is None and beginning.result() is None:
                    await to_thread.run_sync(self._write, forget_use, use)
            raise
        if earlier is None:
            await to_thread.run_sync(self._write, finish_use, use, reply)
        return reply

    def _begin(self, use: KeyUse) -> StoredReply | None:
        """None if this request is the one to answer, else the earlier answer."""
        table = Idempotency.__table__
        with self._database.writing() as connection:
            if begin_use(connection, use):
                return None
            row = connection.execute(select(table).where(_row_of(use))).one_or_none()
            if row is not None and row.body_digest != use.body_digest:
                raise ReusedKeyError(
                    f"the idempotency key {use.key!r} came with another body before: take a new key for a new request"
                )
            if row is not None and row.state == "done":
                return StoredReply(row.status, row.response, replayed=True)
            if row is None or not take_over_use(connection, use, use.created_at - self._patience):
                fact = f"the request of idempotency key {use.key!r} is being answered"
                raise InFlightError(f"{fact}: ask again in a moment")
            return None

    def _write(self, statement: Callable[..., None], *values: object) -> None:
        with self._database.writing() as connection:
            statement(connection, *values)


def begin_use(connection: Connection, use: KeyUse) -> bool:
    """Whether the request is the first of its key, and so the one to answer."""
    return insert_or_ignore(connection, Idempotency, **asdict(use), state="open") is not None


def take_over_use(connection: Connection, use: KeyUse, before: datetime) -> bool:
    """Become the one to answer a request that began before that time and never ended."""
    abandoned = and_(_row_of(use), Idempotency.state == "open", Idempotency.created_at <= before)
    new = {"created_at": use.created_at, "body_digest": use.body_digest}
    return connection.execute(update(Idempotency).where(abandoned).values(new)).rowcount == 1


def finish_use(connection: Connection, use: KeyUse, reply: StoredReply) -> None:
    """Keep the answer, unless the request was taken over in the meantime."""
    new = {"state": "done", "status": reply.status, "response": reply.body}
    connection.execute(update(Idempotency).where(_open_row_of(use)).values(new))


def forget_use(connection: Connection, use: KeyUse) -> None:
    """The request failed: its key is free again."""
    connection.execute(delete(Idempotency).where(_open_row_of(use)))


def drop_older_uses(connection: Connection, before: datetime) -> int:
    """Forget what is older than that time, of all tenants; how many."""
    return connection.execute(delete(Idempotency).where(Idempotency.created_at < before)).rowcount


def _row_of(use: KeyUse) -> ColumnElement[bool]:
    return and_(Idempotency.tenant_id == use.tenant_id, Idempotency.route == use.route, Idempotency.key == use.key)


def _open_row_of(use: KeyUse) -> ColumnElement[bool]:
    return and_(_row_of(use), Idempotency.state == "open", Idempotency.created_at == use.created_at)
