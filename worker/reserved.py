"""The queries of a job: reserved once, kept alive while it trains, taken over after a crash.

The id of the first is in the job's row before it is made, so that whatever was dispatched is found again.
A reservation that was closed in between, by a lease that ran out, is followed by one of what it had left: all of them
together never dispatch more than the job may.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from uuid import UUID, uuid4, uuid5

import structlog

from app.db import budgets, reservations
from app.db.engine import Database
from app.db.tables import State
from app.db.types import AnyRow
from app.errors import ReservationError
from app.ledger.ledger import Ledger
from app.ledger.results import Reservation
from app.training.plan import Plan
from models.errors import QueryLimitError, RecourseError
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
    if known is None:
        known = uuid4()
        held.save_reservation(known)
    while (row := _find(held, known)) is not None:
        if row.state == State.OPEN:
            try:
                taken = ledger.take_over(held.tenant_id, known)
            except ReservationError:
                continue  # It expired just now.
            held.save_reservation(known)
            return taken
        amount, known = min(amount, row.amount - row.dispatched), _following(known)
    if amount < 1:
        return None
    made = ledger.reserve(held.tenant_id, ensemble_id, amount, known)
    # Only now, because the row of one that was not made tells nothing of what is left; and not without the job.
    held.save_reservation(known)
    return made


def _following(closed: UUID) -> UUID:
    """The id of the reservation behind a closed one: the same for every process, so that it is found after a crash."""
    return uuid5(closed, "rest")


def _find(held: HeldJob, reservation_id: UUID) -> AnyRow | None:
    with held.database.reading() as connection:
        return reservations.find(connection, held.tenant_id, reservation_id)


def reserve_plan(held: HeldJob, ledger: Ledger, ensemble_id: int, plan: Plan) -> tuple[Reservation | None, Plan]:
    """The plan's queries; without those of the comparison with the oracle where the budget has no room for them."""
    try:
        reservation = reserve(held, ledger, ensemble_id, plan.total)
    except QueryLimitError as error:
        if not plan.oracle_records:
            raise
        plan = plan.without_oracle(str(error))
        reservation = reserve(held, ledger, ensemble_id, plan.total)
    if reservation is not None and plan.oracle_records and reservation.amount < plan.total:
        plan = plan.without_oracle(f"{reservation.amount} queries are reserved, {plan.total} would be needed")
    if plan.skipped is not None:
        held.log(f"Not compared with the oracle: {plan.skipped}.")
    return reservation, plan


def dispatched_before(held: HeldJob, reservation: Reservation | None) -> int:
    """Queries that earlier processes of this job dispatched from its reservation."""
    if reservation is None:
        return 0
    row = _find(held, reservation.id)
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
