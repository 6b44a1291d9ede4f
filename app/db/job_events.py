"""Queries on what happened to a job: states, progress and log lines, in the order of their ids."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

from sqlalchemy import Connection, delete, insert, select

from app.db.service_tables import JobEvent
from app.db.types import AnyRow

EventKind: TypeAlias = Literal["state", "progress", "log"]
MOST_PROGRESS = 360
"""Progress events that a job keeps at most; with its few states and log lines it stays under 400 rows."""


def add(
    connection: Connection,
    tenant_id: int,
    job_id: UUID,
    kind: EventKind,
    payload: Mapping[str, object],
    now: datetime,
) -> int:
    """Its id."""
    values = {"tenant_id": tenant_id, "job_id": job_id, "at": now, "kind": kind, "payload": dict(payload)}
    return connection.execute(insert(JobEvent).values(values).returning(JobEvent.id)).scalar_one()


def after(
    connection: Connection,
    tenant_id: int,
    job_id: UUID,
    event_id: int = 0,
    limit: int = 500,
    kind: EventKind | None = None,
) -> list[AnyRow]:
    """The events (see `JobEvent`) behind the one of that id, the oldest first."""
    table = JobEvent.__table__
    statement = select(table).where(table.c.tenant_id == tenant_id, table.c.job_id == job_id, table.c.id > event_id)
    if kind is not None:
        statement = statement.where(table.c.kind == kind)
    return list(connection.execute(statement.order_by(table.c.id).limit(limit)).all())


def thin_progress(connection: Connection, job_id: UUID) -> int:
    """Drop every second progress event where there are too many, so that a curve keeps its ends; how many are left."""
    mine = (JobEvent.job_id == job_id, JobEvent.kind == "progress")
    ids = list(connection.execute(select(JobEvent.id).where(*mine).order_by(JobEvent.id)).scalars())
    if len(ids) < MOST_PROGRESS:
        return len(ids)
    connection.execute(delete(JobEvent).where(JobEvent.id.in_(ids[1:-1:2])))
    return len(ids) - len(ids[1:-1:2])
