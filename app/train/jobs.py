"""Training jobs in the database: the jobs table, and what happened to each job as events.

Each change of state is one guarded UPDATE. A worker's writes carry its fence. Whoever claims a job raises the fence, so
that a worker which lost the job, and does not know it yet, changes nothing: `LostLeaseError`. All times are the
caller's `now`, from the service's one clock. Nothing here commits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, func, insert, or_, select, update

from app.db.ledger_tables import ReservationRow, State
from app.db.paging import PageOrder, RowPage, page
from app.db.tables import AnyRow, Job, JobEvent, JobState
from app.errors import LostLeaseError

UNFINISHED = (JobState.QUEUED.value, JobState.RUNNING.value)


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's hold on a job; it holds as long as nobody raised the fence."""

    job_id: UUID
    fence: int


def add_job(
    connection: Connection,
    tenant_id: int,
    job_id: UUID,
    model_name: str,
    request: Mapping[str, object],
    now: datetime,
) -> None:
    """A new job, queued."""
    connection.execute(
        insert(Job).values(
            id=job_id,
            tenant_id=tenant_id,
            model_name=model_name,
            state=JobState.QUEUED.value,
            request=dict(request),
            fence=0,
            cancel_requested=False,
            attempts=0,
            created_at=now,
        )
    )


def find_job(connection: Connection, tenant_id: int, job_id: UUID) -> AnyRow | None:
    """The row (see `Job`), or None if the tenant has no such job."""
    table = Job.__table__
    return connection.execute(select(table).where(table.c.tenant_id == tenant_id, table.c.id == job_id)).one_or_none()


def jobs_page(
    connection: Connection,
    tenant_id: int,
    order: PageOrder,
    state: JobState | None = None,
    model_name: str | None = None,
) -> RowPage:
    """The tenant's jobs, newest first, without what was asked for: that can be long."""
    table = Job.__table__
    columns = [column for column in table.c if column.name != "request"]
    statement: Select[*tuple[Any, ...]] = select(*columns).where(table.c.tenant_id == tenant_id)
    if state is not None:
        statement = statement.where(table.c.state == state.value)
    if model_name is not None:
        statement = statement.where(table.c.model_name == model_name)
    return page(connection, table, statement, order)


def count_unfinished(connection: Connection, tenant_id: int) -> int:
    statement = select(func.count()).where(Job.tenant_id == tenant_id, Job.state.in_(UNFINISHED))
    return connection.execute(statement).scalar_one()


def list_unfinished(connection: Connection, tenant_id: int) -> list[UUID]:
    return list(
        connection.execute(select(Job.id).where(Job.tenant_id == tenant_id, Job.state.in_(UNFINISHED))).scalars()
    )


def waiting(connection: Connection, now: datetime, limit: int = 100) -> list[UUID]:
    """Jobs of all tenants that a worker should take up, the oldest first."""
    statement = select(Job.id).where(_claimable(now)).order_by(Job.created_at).limit(limit)
    return list(connection.execute(statement).scalars())


def claim(
    connection: Connection, worker: str, now: datetime, lease_until: datetime, job_id: UUID | None = None
) -> AnyRow | None:
    """Take the oldest job that waits, or the one that is named if it waits: its row, with a fence of its own."""
    chosen = select(Job.id).where(_claimable(now))
    if job_id is not None:
        chosen = chosen.where(Job.id == job_id)
    chosen = chosen.order_by(Job.created_at).limit(1).with_for_update(skip_locked=True)
    statement = (
        update(Job)
        .where(Job.id == chosen.scalar_subquery(), Job.state.in_(UNFINISHED))
        .values(
            state=JobState.RUNNING.value,
            fence=Job.fence + 1,
            attempts=Job.attempts + 1,
            worker=worker,
            lease_until=lease_until,
            started_at=func.coalesce(Job.started_at, now),
        )
        .returning(*Job.__table__.c)
    )
    return connection.execute(statement).one_or_none()


def give_up(connection: Connection, now: datetime, attempts: int, error: str) -> list[AnyRow]:
    """End the jobs that nobody holds and nobody should take up: cancelled ones, and those that were tried too often."""
    cancelled, worn_out = Job.cancel_requested.is_(True), Job.attempts >= attempts
    ended = list[AnyRow]()
    for condition, state, reason in (
        (cancelled, JobState.CANCELLED, None),
        (worn_out, JobState.FAILED, error),
    ):
        statement = (
            update(Job)
            .where(_claimable(now), condition)
            .values(state=state.value, error=reason, finished_at=now, fence=Job.fence + 1, lease_until=None)
            .returning(*Job.__table__.c)
        )
        ended += list(connection.execute(statement).all())
    return ended


def held(connection: Connection, claim: Claim) -> AnyRow:
    """The row of a job that the worker still holds."""
    table = Job.__table__
    row = connection.execute(select(table).where(_held(claim))).one_or_none()
    if row is None:
        raise _lost(claim)
    return row


def renew(connection: Connection, claim: Claim, lease_until: datetime) -> bool:
    """Move the lease on; whether somebody asked to cancel the job."""
    statement = update(Job).where(_held(claim)).values(lease_until=lease_until).returning(Job.cancel_requested)
    found = connection.execute(statement).scalar_one_or_none()
    if found is None:
        raise _lost(claim)
    return found


def save_progress(connection: Connection, claim: Claim, progress: Mapping[str, object]) -> None:
    _write(connection, claim, {"progress": dict(progress)})


def save_checkpoint(connection: Connection, claim: Claim, location: str) -> None:
    """Where to go on from. A training that came this far is not stuck, so its count of attempts begins again."""
    _write(connection, claim, {"checkpoint": location, "attempts": 0})


def save_reservation(connection: Connection, claim: Claim, reservation_id: UUID) -> None:
    _write(connection, claim, {"reservation_id": reservation_id})


def release(connection: Connection, claim: Claim, counted: bool = True) -> None:
    """Put the job back: it waits for the next worker. Not `counted`: it was nobody's fault, and is no attempt."""
    again = {} if counted else {"attempts": Job.attempts - 1}
    _write(connection, claim, {"state": JobState.QUEUED.value, "lease_until": None, "worker": None, **again})


def finish(connection: Connection, claim: Claim, version_id: UUID, now: datetime) -> None:
    """The job is done; in the same transaction as its model version."""
    _end(connection, claim, JobState.DONE, now, {"model_version_id": version_id, "error": None})


def fail(connection: Connection, claim: Claim, error: str, now: datetime) -> None:
    _end(connection, claim, JobState.FAILED, now, {"error": error})


def cancel(connection: Connection, claim: Claim, now: datetime) -> None:
    """The job ends because somebody asked for it."""
    _end(connection, claim, JobState.CANCELLED, now, {})


def request_cancel(connection: Connection, tenant_id: int, job_id: UUID, now: datetime) -> AnyRow | None:
    """A queued job is cancelled at once, a running one is asked to end; the row, or None if neither was the case."""
    mine = and_(Job.tenant_id == tenant_id, Job.id == job_id)
    queued = update(Job).where(mine, Job.state == JobState.QUEUED.value)
    queued = queued.values(state=JobState.CANCELLED.value, cancel_requested=True, finished_at=now)
    row = connection.execute(queued.returning(*Job.__table__.c)).one_or_none()
    if row is not None:
        return row
    running = update(Job).where(mine, Job.state == JobState.RUNNING.value).values(cancel_requested=True)
    return connection.execute(running.returning(*Job.__table__.c)).one_or_none()


def _claimable(now: datetime) -> ColumnElement[bool]:
    return or_(Job.state == JobState.QUEUED.value, and_(Job.state == JobState.RUNNING.value, Job.lease_until <= now))


def _held(claim: Claim) -> ColumnElement[bool]:
    return and_(Job.id == claim.job_id, Job.fence == claim.fence, Job.state == JobState.RUNNING.value)


def _end(connection: Connection, claim: Claim, state: JobState, now: datetime, values: Mapping[str, object]) -> None:
    _write(connection, claim, {"state": state.value, "finished_at": now, "lease_until": None, **values})


def _write(connection: Connection, claim: Claim, values: Mapping[str, object]) -> None:
    if connection.execute(update(Job).where(_held(claim)).values(**values)).rowcount != 1:
        raise _lost(claim)


def _lost(claim: Claim) -> LostLeaseError:
    return LostLeaseError(f"job {claim.job_id} is no longer held under fence {claim.fence}: write nothing, stop")


EventKind: TypeAlias = Literal["state", "progress", "log"]
MOST_PROGRESS = 360
"""Progress events that a job keeps at most; with its few states and log lines it stays under 400 rows."""


def add_event(
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


def events_after(
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


def ended_before(connection: Connection, now: datetime, job_ids: Sequence[UUID]) -> list[AnyRow]:
    """The jobs among these, of all tenants, that had ended by `now`."""
    table = Job.__table__
    ended = table.c.state.not_in(UNFINISHED), table.c.finished_at <= now
    return list(connection.execute(select(table).where(table.c.id.in_(job_ids), *ended)).all())


def ended_with_reservation(connection: Connection, now: datetime) -> list[AnyRow]:
    """Jobs of all tenants that had ended by then, and whose reservation is open."""
    table = Job.__table__
    ended = table.c.state.not_in(UNFINISHED), table.c.finished_at <= now
    open_ones = select(ReservationRow.id).where(ReservationRow.state == State.OPEN.value)
    return list(connection.execute(select(table).where(*ended, table.c.reservation_id.in_(open_ones))).all())


def count_by_state(connection: Connection, tenant_id: int) -> list[AnyRow]:
    """state, count, and seconds: how long the finished ones took in all."""
    if connection.dialect.name == "sqlite":
        took = (func.julianday(Job.finished_at) - func.julianday(Job.started_at)) * 86_400.0
    else:
        took = func.extract("epoch", Job.finished_at - Job.started_at)
    statement = (
        select(Job.state, func.count().label("jobs"), func.coalesce(func.sum(took), 0.0).label("seconds"))
        .where(Job.tenant_id == tenant_id)
        .group_by(Job.state)
    )
    return list(connection.execute(statement).all())


FOLDER = "jobs"


def job_folder(job_id: UUID) -> str:
    return f"{FOLDER}/{job_id}"
