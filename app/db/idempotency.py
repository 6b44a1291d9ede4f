"""Queries on idempotency keys: who answers a request, and what was answered."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from app.db.service_tables import Idempotency
from app.db.types import AnyRow


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A key on a route; `began` tells one try from the next, so that an old one cannot answer for a new one."""

    tenant_id: int
    route: str
    key: str
    body_digest: str
    began: datetime


def begin(connection: Connection, use: KeyUse) -> bool:
    """Whether the request is the first of its key, and so the one to answer."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = (
        insert(Idempotency)
        .values(
            tenant_id=use.tenant_id,
            route=use.route,
            key=use.key,
            body_digest=use.body_digest,
            state="open",
            created_at=use.began,
        )
        .on_conflict_do_nothing()
        .returning(Idempotency.state)
    )
    return connection.execute(statement).one_or_none() is not None


def take_over(connection: Connection, use: KeyUse, before: datetime) -> bool:
    """Become the one to answer a request that began before that time and never ended."""
    statement = (
        update(Idempotency)
        .where(_row(use), Idempotency.state == "open", Idempotency.created_at <= before)
        .values(created_at=use.began, body_digest=use.body_digest)
    )
    return connection.execute(statement).rowcount == 1


def find(connection: Connection, use: KeyUse) -> AnyRow | None:
    table = Idempotency.__table__
    return connection.execute(select(table).where(_row(use))).one_or_none()


def finish(connection: Connection, use: KeyUse, status: int, response: str) -> None:
    """Keep the answer, unless the request was taken over in the meantime."""
    connection.execute(
        update(Idempotency)
        .where(_row(use), Idempotency.state == "open", Idempotency.created_at == use.began)
        .values(state="done", status=status, response=response)
    )


def forget(connection: Connection, use: KeyUse) -> None:
    """The request failed: its key is free again."""
    mine = and_(_row(use), Idempotency.state == "open", Idempotency.created_at == use.began)
    connection.execute(delete(Idempotency).where(mine))


def drop_older(connection: Connection, before: datetime) -> int:
    """Forget what is older than that time, of all tenants; how many."""
    return connection.execute(delete(Idempotency).where(Idempotency.created_at < before)).rowcount


def _row(use: KeyUse) -> ColumnElement[bool]:
    return and_(Idempotency.tenant_id == use.tenant_id, Idempotency.route == use.route, Idempotency.key == use.key)
