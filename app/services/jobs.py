"""What happens to jobs from outside of their worker: cancel, and the reconciler that lets none be forgotten."""

from uuid import UUID

from app.db import job_events, jobs, reservations
from app.db.engine import Database
from app.db.service_tables import JobState
from app.db.tables import State
from app.db.types import AnyRow
from app.errors import ConflictError, NotFoundError, ReservationError
from app.ledger.ledger import Ledger, utc_now
from app.training.protocol import TrainingQueue


def cancel(database: Database, tenant_id: int, job_id: UUID) -> AnyRow:
    """A queued job is cancelled at once; a running one within seconds, by its worker. The row as it is now."""
    now = utc_now()
    with database.writing() as connection:
        row = jobs.request_cancel(connection, tenant_id, job_id, now)
        if row is None:
            found = jobs.find(connection, tenant_id, job_id)
            if found is None:
                raise NotFoundError(f"there is no job {job_id}")
            raise ConflictError(f"job {job_id} is {found.state} already, so it cannot be cancelled")
        if row.state == JobState.CANCELLED.value:
            job_events.add(connection, tenant_id, job_id, "state", {"state": row.state}, now)
        return row


def reconcile(database: Database, ledger: Ledger, queue: TrainingQueue, attempts: int) -> list[UUID]:
    """Ring for every job that waits, whatever became of the ring before; end those that must not be tried again.

    Called once in a while by the API and by each worker: any number of them may do so at the same time.
    """
    end_hopeless(database, ledger, attempts)
    with database.reading() as connection:
        waiting = jobs.waiting(connection, utc_now())
    for job_id in waiting:
        queue.ring(job_id)
    return waiting


def end_hopeless(database: Database, ledger: Ledger, attempts: int) -> None:
    """End jobs without a living worker that were cancelled, or begun too often without getting any further."""
    now = utc_now()
    error = (
        f"The training was begun {attempts} times from the same place and its process died each time, which points to "
        "too little memory; train on fewer rows or fewer members, or give the worker more memory."
    )
    with database.writing() as connection:
        ended = jobs.give_up(connection, now, attempts, error)
        for row in ended:
            payload = {"state": row.state, "error": row.error}
            job_events.add(connection, row.tenant_id, row.id, "state", payload, now)
    for row in ended:
        settle_reservation(database, ledger, row)


def settle_reservation(database: Database, ledger: Ledger, job: AnyRow) -> None:
    """Close what an ended job left open, so that what it did not use comes back now and not when the lease is over."""
    if job.reservation_id is None:
        return
    with database.reading() as connection:
        reservation = reservations.find(connection, job.tenant_id, job.reservation_id)
    if reservation is None or reservation.state != State.OPEN:
        return
    try:
        ledger.settle(ledger.take_over(job.tenant_id, job.reservation_id))
    except ReservationError:
        return  # Somebody else closed it in between, which is as good.
