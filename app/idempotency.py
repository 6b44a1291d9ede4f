"""Idempotency-Key: a request that is sent again under its key gets the answer of the first, and nothing happens twice.

Only answers that succeeded are kept: a request that failed may be sent again as it is. What it had asked the lender's
models by then stays charged, and is not charged again: those answers are kept.

Queries on idempotency keys: who answers a request, and what was answered.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from anyio import CancelScope, to_thread
from sqlalchemy import ColumnElement, Connection, and_, delete, select, update

from app.db.engine import Database, insert_or_ignore
from app.db.tables import AnyRow, Idempotency, utc_now
from app.errors import InFlightError, ReusedKeyError


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A key on a route; `began` tells one try from the next, so that an old one cannot answer for a new one."""

    tenant_id: int
    route: str
    key: str
    body_digest: str
    began: datetime


def begin_use(connection: Connection, use: KeyUse) -> bool:
    """Whether the request is the first of its key, and so the one to answer."""
    made = insert_or_ignore(
        connection,
        Idempotency,
        tenant_id=use.tenant_id,
        route=use.route,
        key=use.key,
        body_digest=use.body_digest,
        state="open",
        created_at=use.began,
    )
    return made is not None


def take_over_use(connection: Connection, use: KeyUse, before: datetime) -> bool:
    """Become the one to answer a request that began before that time and never ended."""
    statement = (
        update(Idempotency)
        .where(_use_row(use), Idempotency.state == "open", Idempotency.created_at <= before)
        .values(created_at=use.began, body_digest=use.body_digest)
    )
    return connection.execute(statement).rowcount == 1


def find_use(connection: Connection, use: KeyUse) -> AnyRow | None:
    table = Idempotency.__table__
    return connection.execute(select(table).where(_use_row(use))).one_or_none()


def finish_use(connection: Connection, use: KeyUse, status: int, response: str) -> None:
    """Keep the answer, unless the request was taken over in the meantime."""
    connection.execute(
        update(Idempotency)
        .where(_use_row(use), Idempotency.state == "open", Idempotency.created_at == use.began)
        .values(state="done", status=status, response=response)
    )


def forget_use(connection: Connection, use: KeyUse) -> None:
    """The request failed: its key is free again."""
    mine = and_(_use_row(use), Idempotency.state == "open", Idempotency.created_at == use.began)
    connection.execute(delete(Idempotency).where(mine))


def drop_older_uses(connection: Connection, before: datetime) -> int:
    """Forget what is older than that time, of all tenants; how many."""
    return connection.execute(delete(Idempotency).where(Idempotency.created_at < before)).rowcount


def _use_row(use: KeyUse) -> ColumnElement[bool]:
    return and_(Idempotency.tenant_id == use.tenant_id, Idempotency.route == use.route, Idempotency.key == use.key)


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
class Answer:
    """An answer as it is sent: the JSON text of its body."""

    status: int
    body: str
    replayed: bool = False


class Once:
    """Runs a request once a key. `open_seconds`: after that a request that never ended counts as crashed."""

    def __init__(self, database: Database, open_seconds: float) -> None:
        self._database = database
        self._patience = timedelta(seconds=open_seconds)

    def run(self, tenant_id: int, route: str, keyed: KeyedBody | None, work: Callable[[], Answer]) -> Answer:
        """The answer of `work`, or of the request that came with the same key before."""
        if keyed is None:
            return work()
        use = KeyUse(tenant_id, route, keyed.key, keyed.digest, utc_now())
        earlier = self._begin(use)
        if earlier is not None:
            return earlier
        try:
            answer = work()
        except BaseException:
            self._forget(use)
            raise
        self._finish(use, answer)
        return answer

    async def run_async(
        self, tenant_id: int, route: str, keyed: KeyedBody | None, work: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """The same for work on the event loop; the database is asked in a thread."""
        if keyed is None:
            return await work()
        use = KeyUse(tenant_id, route, keyed.key, keyed.digest, utc_now())
        earlier = await self._begin_in_thread(use)
        if earlier is not None:
            return earlier
        try:
            answer = await work()
        except BaseException:
            # Also when the caller has hung up: the row would answer 409 until it counts as crashed.
            with CancelScope(shield=True):
                await to_thread.run_sync(self._forget, use)
            raise
        await to_thread.run_sync(self._finish, use, answer)
        return answer

    async def _begin_in_thread(self, use: KeyUse) -> Answer | None:
        """`_begin`; the thread goes on when the caller hangs up, and what it has written down by then is forgotten."""
        beginning = asyncio.ensure_future(to_thread.run_sync(self._begin, use))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            with CancelScope(shield=True):
                await asyncio.wait((beginning,))
                if beginning.exception() is None and beginning.result() is None:
                    await to_thread.run_sync(self._forget, use)
            raise

    def _begin(self, use: KeyUse) -> Answer | None:
        """None if this request is the one to answer, else the earlier answer."""
        with self._database.writing() as connection:
            if begin_use(connection, use):
                return None
            row = find_use(connection, use)
            if row is None:
                raise _in_flight(use)
            if row.body_digest != use.body_digest:
                raise ReusedKeyError(
                    f"the idempotency key {use.key!r} came with another body before: take a new key for a new request"
                )
            if row.state == "done":
                return Answer(row.status, row.response, replayed=True)
            if not take_over_use(connection, use, use.began - self._patience):
                raise _in_flight(use)
            return None

    def _finish(self, use: KeyUse, answer: Answer) -> None:
        with self._database.writing() as connection:
            finish_use(connection, use, answer.status, answer.body)

    def _forget(self, use: KeyUse) -> None:
        with self._database.writing() as connection:
            forget_use(connection, use)


def _in_flight(use: KeyUse) -> InFlightError:
    return InFlightError(f"the request of idempotency key {use.key!r} is being answered: ask again in a moment")
