"""Idempotency-Key: a request that is sent again under its key gets the answer of the first, and nothing happens twice.

The answer is kept in the transaction that does the work, so that no crash comes between them. What is done in one
transaction is answered `once`: the same request meanwhile waits for it. What takes longer holds its key with a lease
that is renewed while its process lives (`run`), and keeps its answer with what it writes at the end.

Only answers that succeeded are kept: a request that failed may be sent again as it is. What it had asked the lender's
models by then stays charged, and is not charged again: those answers are kept (app/ensembles/bought.py).
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import structlog
from anyio import CancelScope, to_thread
from sqlalchemy import ColumnElement, Connection, and_, delete, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from app.db.engine import Database, insert_or_ignore
from app.db.tables import AnyRow, Idempotency, utc_now
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

    def on(self, *parts: object) -> "KeyedBody":
        """The same key, with what the body alone does not say: a name in the path, say.

        One part is written as 0.1.0 wrote it: a request that is repeated after an upgrade is the same request.
        """
        said = f"{self.digest} {parts[0]}" if len(parts) == 1 else repr((self.digest, *map(str, parts)))
        return KeyedBody.of(self.key, said.encode())


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


Keep: TypeAlias = Callable[[Connection, StoredReply], None]
"""Keeps the answer of a request in the transaction that does its work."""
log = structlog.get_logger()


class IdempotentRequests:
    """Answers a request once a key. `open_seconds`: after that without a sign of life a request counts as crashed."""

    def __init__(self, database: Database, open_seconds: float) -> None:
        self._database = database
        self._lease = timedelta(seconds=open_seconds)

    def once(
        self,
        tenant_id: int,
        route: str,
        keyed: KeyedBody | None,
        work: Callable[[Connection], StoredReply],
        check: Callable[[], None] = lambda: None,
    ) -> StoredReply:
        """The answer of `work`, which is done in one transaction with its key, or the earlier one. It blocks.

        What `check` refuses, outside of the transaction, is refused; it is not asked where the answer is there.
        """
        if keyed is None:
            check()
            with self._database.writing() as connection:
                return work(connection)
        use = KeyUse(tenant_id, route, keyed.key, keyed.digest, utc_now())
        if self._database.read(_find, use) is None:
            check()
        with self._database.writing() as connection:
            earlier = _claim(connection, use, use.created_at)
            if earlier is None:
                finish_use(connection, use, reply := work(connection))
        return earlier or reply

    async def run(
        self, tenant_id: int, route: str, keyed: KeyedBody | None, work: Callable[[Keep], Awaitable[StoredReply]]
    ) -> StoredReply:
        """The answer of `work`, or of the request that came with the same key before. The database has a thread.

        Work that ends with a transaction of its own hands `Keep` to it; else the answer is kept afterwards.
        """
        if keyed is None:
            return await work(lambda connection, reply: None)
        use = KeyUse(tenant_id, route, keyed.key, keyed.digest, utc_now())
        beginning = asyncio.ensure_future(to_thread.run_sync(self._write, _claim, use, use.created_at + self._lease))
        try:
            # When the caller hangs up the thread goes on: what it has written by then is forgotten below.
            earlier = await asyncio.shield(beginning)
            if earlier is not None:
                return earlier
            async with self._renewed(use):
                reply = await work(lambda connection, reply: finish_use(connection, use, reply))
        except BaseException:
            with CancelScope(shield=True):
                await asyncio.wait((beginning,))
                if beginning.exception() is None and beginning.result() is None:
                    await to_thread.run_sync(self._write, forget_use, use)
            raise
        await to_thread.run_sync(self._write, finish_use, use, reply)
        return reply

    @asynccontextmanager
    async def _renewed(self, use: KeyUse) -> AsyncIterator[None]:
        """The key's lease is moved on while what is inside goes on."""

        async def renew() -> None:
            while True:
                await asyncio.sleep(self._lease.total_seconds() / 3)
                try:
                    await to_thread.run_sync(self._write, renew_use, use, utc_now() + self._lease)
                except SQLAlchemyError as error:
                    log.warning("idempotency key not renewed", reason=type(error).__name__)

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()

    def _write(self, statement: Callable[..., StoredReply | None], *values: object) -> StoredReply | None:
        with self._database.writing() as connection:
            return statement(connection, *values)


def _claim(connection: Connection, use: KeyUse, lease_until: datetime) -> StoredReply | None:
    """None if this request is the one to answer, else the earlier answer."""
    if begin_use(connection, use, lease_until):
        return None
    row = _find(connection, use)
    if row is not None and row.body_digest != use.body_digest:
        raise ReusedKeyError(
            f"the idempotency key {use.key!r} came with another body before: take a new key for a new request"
        )
    if row is not None and row.state == "done":
        return StoredReply(row.status, row.response, replayed=True)
    if row is None or not take_over_use(connection, use, lease_until):
        raise InFlightError(f"the request of idempotency key {use.key!r} is being answered: ask again in a moment")
    return None


def _find(connection: Connection, use: KeyUse) -> AnyRow | None:
    return connection.execute(select(Idempotency.__table__).where(_row_of(use))).one_or_none()


def begin_use(connection: Connection, use: KeyUse, lease_until: datetime) -> bool:
    """Whether the request is the first of its key, and so the one to answer."""
    values = {name: getattr(use, name) for name in KeyUse.__dataclass_fields__}
    return insert_or_ignore(connection, Idempotency, **values, state="open", lease_until=lease_until) is not None


def renew_use(connection: Connection, use: KeyUse, lease_until: datetime) -> None:
    """A sign of life of who answers."""
    connection.execute(update(Idempotency).where(_open_row_of(use)).values(lease_until=lease_until))


def take_over_use(connection: Connection, use: KeyUse, lease_until: datetime) -> bool:
    """Become the one to answer a request whose process died."""
    overdue = or_(Idempotency.lease_until.is_(None), Idempotency.lease_until <= use.created_at)
    abandoned = and_(_row_of(use), Idempotency.state == "open", overdue)
    new = {"created_at": use.created_at, "body_digest": use.body_digest, "lease_until": lease_until}
    return connection.execute(update(Idempotency).where(abandoned).values(new)).rowcount == 1


def finish_use(connection: Connection, use: KeyUse, reply: StoredReply) -> None:
    """Keep the answer, unless it is there already, or the request was taken over in the meantime."""
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
