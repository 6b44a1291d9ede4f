"""The queries of a job: reserved once, kept alive while it trains, taken over after a crash.

The reservation's id is in the job's row before the reservation is made, so that whatever was dispatched is found again.
A reservation that was closed in between, by a lease that ran out, is followed by one of what it had left: all of them
together never dispatch more than the job may.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from uuid import UUID, uuid4

import structlog

from app.db import budgets, reservations
from app.db.engine import Database
from app.db.tables import State
from app.errors import ReservationError
from app.ledger.ledger import Ledger
from app.ledger.results import Reservation
from models.errors import RecourseError
from worker.held_job import HeldJob

log = structlog.get_logger()


def ensure_budget(database: Database, ledger: Ledger, tenant_id: int, ensemble_id: int, limit: int) -> None:
    """An ensemble that the service trained itself has a budget from the start."""
    with database.reading() as connection:
        known = budgets.find(connection, tenant_id, ensemble_id) is not None
    if not known:
        ledger.set_limit(tenant_id, ensemble_id, limit)


def reserve(held: HeldJob, ledger: Ledger, ensemble_id: int, amount: int) -> Reservation | None:
    """The job's reservation, new or taken over; None if there is nothing left to reserve."""
    known: UUID | None = held.read().reservation_id
    if known is not None:
        with held.database.reading() as connection:
            row = reservations.find(connection, held.tenant_id, known)
        if row is None:
            return _new(ledger, held.tenant_id, ensemble_id, amount, known)
        if row.state == State.OPEN:
            try:
                return ledger.take_over(held.tenant_id, known)
            except ReservationError:
                return reserve(held, ledger, ensemble_id, amount)  # It expired just now.
        amount = row.amount - row.dispatched
    planned = uuid4()
    held.save_reservation(planned)
    return _new(ledger, held.tenant_id, ensemble_id, amount, planned)


def _new(ledger: Ledger, tenant_id: int, ensemble_id: int, amount: int, planned: UUID) -> Reservation | None:
    return ledger.reserve(tenant_id, ensemble_id, amount, planned) if amount > 0 else None


def dispatched_before(held: HeldJob, reservation: Reservation | None) -> int:
    """Queries that earlier processes of this job dispatched from its reservation."""
    if reservation is None:
        return 0
    with held.database.reading() as connection:
        row = reservations.find(connection, held.tenant_id, reservation.id)
    return 0 if row is None else int(row.dispatched)


@contextmanager
def kept_alive(ledger: Ledger, reservation: Reservation | None, seconds: float) -> Iterator[None]:
    """Renew the reservation every so often: a long phase without a query must not let it expire."""
    if reservation is None:
        yield
        return
    ended = Event()

    def renew() -> None:
        while not ended.wait(seconds):
            try:
                ledger.renew(reservation)
            except RecourseError as error:
                log.warning("reservation not renewed", reservation=str(reservation.id), reason=str(error))

    thread = Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
