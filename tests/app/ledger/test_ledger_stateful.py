"""Random interleavings of everything that the ledger can do, against a model of a few lines."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from app.db.engine import Database
from app.db.ledger_tables import Account, LedgerEntry, Period, ReservationRow
from app.errors import ConflictError, ReservationError
from app.ledger.audit import check_ledger
from app.ledger.balance import Reservation, period_key
from app.ledger.ledger import Ledger
from models.errors import QueryLimitError
from tests.app.conftest import correct, new_customer
from tests.app.ledger import CHAIN_KEY

LEASE = timedelta(minutes=15)


@dataclass
class Counters:
    """The model of an account; `calls` is what the black box saw."""

    limit: int
    lowest_promise: int = 0
    used: int = 0
    reserved: int = 0
    dispatched: int = 0
    calls: int = 0
    corrected: int = 0


@dataclass
class Promise:
    """The model of a reservation."""

    account: Counters
    period: str
    amount: int
    expires: datetime
    fence: int = 1
    dispatched: int = 0
    is_open: bool = True


@dataclass
class Books:
    """The whole model: one budget, its accounts, its reservations."""

    period: Period = Period.NONE
    limit: int = 0
    accounts: dict[str, Counters] = field(default_factory=dict)
    promises: dict[str, Promise] = field(default_factory=dict)

    def account(self, now: datetime) -> Counters:
        return self.accounts.setdefault(period_key(self.period, now), Counters(self.limit))

    def close(self, promise: Promise) -> None:
        promise.is_open = False
        promise.account.used += promise.dispatched
        promise.account.reserved -= promise.amount

    def expire(self, now: datetime) -> int:
        overdue = [p for p in self.promises.values() if p.is_open and p.expires <= now]
        for promise in overdue:
            self.close(promise)
        return len(overdue)


class LedgerMachine(RuleBasedStateMachine):
    """Each rule does one thing to the ledger and to the model, and both must answer alike."""

    database: Database
    reservations: Bundle[Reservation] = Bundle("reservations")

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime(2026, 1, 31, 12, tzinfo=UTC)
        self.customer = new_customer(self.database)
        self.ids = (self.customer.tenant_id, self.customer.ensemble_id)
        self.ledger = Ledger(self.database, CHAIN_KEY, clock=lambda: self.now, lease=LEASE)
        self.books = Books()
        self.set_limit(20, Period.DAY)

    @rule(limit=st.integers(0, 30), period=st.sampled_from(Period))
    def set_limit(self, limit: int, period: Period) -> None:
        self.ledger.set_limit(*self.ids, limit, period, restart=True)
        self.books.limit, self.books.period = limit, period
        account = self.books.account(self.now)
        account.limit = limit
        account.lowest_promise = account.used + account.reserved

    @rule(target=reservations, amount=st.integers(1, 12))
    def reserve(self, amount: int) -> Reservation | MultipleResults[Reservation]:
        account = self.books.account(self.now)
        if account.used + account.reserved + amount > account.limit:
            self.books.expire(self.now)
        if account.used + account.reserved + amount > account.limit:
            with pytest.raises(QueryLimitError):
                self.ledger.reserve(*self.ids, amount)
            return multiple()
        reservation = self.ledger.reserve(*self.ids, amount)
        account.reserved += amount
        self._promised(reservation)
        return reservation

    def _promised(self, reservation: Reservation) -> Promise:
        account, period = self.books.account(self.now), period_key(self.books.period, self.now)
        promise = Promise(account, period, reservation.amount, self.now + LEASE)
        self.books.promises[str(reservation.id)] = promise
        return promise

    @rule(target=reservations, reservation=reservations, count=st.integers(1, 6), crash_before_call=st.booleans())
    def dispatch_and_call(
        self, reservation: Reservation, count: int, crash_before_call: bool
    ) -> Reservation | MultipleResults[Reservation]:
        promise = self.books.promises[str(reservation.id)]
        if not self._owns(reservation, promise) or promise.expires <= self.now:
            with pytest.raises((ReservationError, QueryLimitError)):
                self.ledger.dispatch(reservation, count)
        elif promise.dispatched + count > promise.amount:
            with pytest.raises(QueryLimitError):
                self.ledger.dispatch(reservation, count)
        elif promise.period in {period_key(period, self.now) for period in Period}:
            assert self.ledger.dispatch(reservation, count) is reservation
            self._dispatched(promise, count, crash_before_call)
        else:
            return self._dispatch_in_the_next_period(reservation, promise, count, crash_before_call)
        return multiple()

    def _dispatch_in_the_next_period(
        self, reservation: Reservation, promise: Promise, count: int, crash_before_call: bool
    ) -> Reservation | MultipleResults[Reservation]:
        self.books.close(promise)
        left, account = promise.amount - promise.dispatched, self.books.account(self.now)
        if account.used + account.reserved + left > account.limit:
            self.books.expire(self.now)
        if account.used + account.reserved + left > account.limit:
            with pytest.raises(QueryLimitError):
                self.ledger.dispatch(reservation, count)
            return multiple()
        moved = self.ledger.dispatch(reservation, count)
        account.reserved += left
        assert moved.amount == left
        self._dispatched(self._promised(moved), count, crash_before_call)
        return moved

    def _dispatched(self, promise: Promise, count: int, crash_before_call: bool) -> None:
        promise.dispatched += count
        promise.expires = self.now + LEASE
        promise.account.dispatched += count
        promise.account.calls += 0 if crash_before_call else count

    @rule(reservation=reservations)
    def settle(self, reservation: Reservation) -> None:
        promise = self.books.promises[str(reservation.id)]
        if promise.is_open and promise.fence != reservation.fence:
            with pytest.raises(ReservationError):
                self.ledger.settle(reservation)
            return
        settlement = self.ledger.settle(reservation)
        if promise.is_open:
            self.books.close(promise)
        assert (settlement.dispatched, settlement.released) == (promise.dispatched, promise.amount - promise.dispatched)

    @rule(target=reservations, reservation=reservations)
    def take_over(self, reservation: Reservation) -> Reservation | MultipleResults[Reservation]:
        promise = self.books.promises[str(reservation.id)]
        if not promise.is_open:
            with pytest.raises(ReservationError):
                self.ledger.take_over(reservation.tenant_id, reservation.id)
            return multiple()
        promise.fence += 1
        promise.expires = self.now + LEASE
        return self.ledger.take_over(reservation.tenant_id, reservation.id)

    @rule(count=st.integers(-8, 8).filter(bool))
    def correct(self, count: int) -> None:
        account = self.books.account(self.now)
        over = count > 0 and account.used + account.reserved + count > account.limit
        if over or account.used + count < 0:
            with pytest.raises(ConflictError):
                correct(self.database, self.ledger, self.customer, count)
        else:
            assert correct(self.database, self.ledger, self.customer, count).used == account.used + count
            account.used += count
            account.corrected += count

    @rule()
    def expire(self) -> None:
        ours = [s for s in self.ledger.expire() if str(s.reservation_id) in self.books.promises]
        assert len(ours) == self.books.expire(self.now)

    @rule(minutes=st.sampled_from([1, 10, 20, 12 * 60, 24 * 60]))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @invariant()
    def the_books_are_right(self) -> None:
        with self.database.reading() as connection:
            accounts = connection.execute(select(Account.__table__).where(Account.tenant_id == self.ids[0])).all()
            rows = connection.execute(
                select(ReservationRow.__table__).where(ReservationRow.tenant_id == self.ids[0])
            ).all()
        assert {str(row.id): row.dispatched for row in rows} == {
            name: promise.dispatched for name, promise in self.books.promises.items()
        }
        for row in accounts:
            model = self.books.accounts[row.period_key]
            assert (row.query_limit, row.used, row.reserved) == (model.limit, model.used, model.reserved)
            dispatched = sum(r.dispatched for r in rows if r.account_id == row.id)
            promised = row.used + row.reserved
            assert model.calls <= dispatched <= promised - model.corrected
            assert promised <= max(row.query_limit, model.lowest_promise) and row.used >= 0

    def teardown(self) -> None:
        statement = select(Account.period_key, LedgerEntry.at).join(Account, Account.id == LedgerEntry.account_id)
        with self.database.reading() as connection:
            dispatches = connection.execute(statement.where(LedgerEntry.dispatched > 0)).all()
        for key, at in dispatches:
            assert key in {period_key(kind, at) for kind in Period}, "it counts for the period of its dispatch"
        assert check_ledger(self.database, CHAIN_KEY) == []

    @staticmethod
    def _owns(reservation: Reservation, promise: Promise) -> bool:
        return promise.is_open and promise.fence == reservation.fence


@pytest.mark.parametrize("database_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True)
def test_any_interleaving_keeps_the_invariant(database: Database) -> None:
    machine = type("Machine", (LedgerMachine,), {"database": database})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
