"""Threads that come at once, and answers that are lost on the way back."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from sqlalchemy import Connection, select
from sqlalchemy.exc import OperationalError

from app.db.engine import Database
from app.db.ledger_tables import Account, LedgerEntry, Period
from app.errors import LedgerUnavailableError
from app.ledger.audit import check_ledger
from app.ledger.balance import Reservation
from app.ledger.ledger import Ledger
from models.errors import QueryLimitError
from tests.app.conftest import Customer
from tests.app.ledger import CHAIN_KEY

THREADS = 8


class LosesAnswers(Database):
    """A database that commits the next `lost` steps and then breaks off before it can say so."""

    lost = 0

    @contextmanager
    def stepping(self) -> Iterator[Connection]:
        with super().stepping() as connection:
            yield connection
        self._lose()

    @contextmanager
    def holding(self) -> Iterator[Connection]:
        with super().holding() as connection:
            yield connection
        self._lose()

    def _lose(self) -> None:
        if self.lost:
            self.lost -= 1
            raise OperationalError("step", {}, ConnectionError("server closed the connection unexpectedly"))


@pytest.fixture
def lossy(database: Database) -> LosesAnswers:
    return LosesAnswers(database.engine, database.reader, database.stepper, database.checker)


def test_a_new_period_is_opened_once_by_many(database: Database, customer: Customer) -> None:
    today = datetime(2026, 5, 1, tzinfo=UTC)
    Ledger(database, CHAIN_KEY, clock=lambda: today).set_limit(customer.tenant_id, customer.ensemble_id, 5, Period.DAY)
    tomorrow = Ledger(database, CHAIN_KEY, clock=lambda: today + timedelta(days=1))

    def reserve(_: int) -> Reservation | None:
        try:
            return tomorrow.reserve(customer.tenant_id, customer.ensemble_id, 1)
        except QueryLimitError:
            return None

    with ThreadPoolExecutor(THREADS) as pool:
        granted = [reservation for reservation in pool.map(reserve, range(20)) if reservation is not None]
    assert len(granted) == 5
    assert tomorrow.balance(customer.tenant_id, customer.ensemble_id).reserved == 5
    assert check_ledger(database, CHAIN_KEY) == []


def test_no_period_passes_its_limit_while_periods_turn(database: Database, customer: Customer) -> None:
    """An hour passes whenever somebody looks at the clock, so reservations go over midnight all the time."""
    hours = count()

    def clock() -> datetime:
        return datetime(2026, 5, 1, tzinfo=UTC) + timedelta(hours=next(hours))

    ids, limit = (customer.tenant_id, customer.ensemble_id), 20
    ledger = Ledger(database, CHAIN_KEY, clock=clock, lease=timedelta(days=100))
    ledger.set_limit(*ids, limit, Period.DAY)

    def work(_: int) -> None:
        for _ in range(6):
            try:
                reservation = ledger.reserve(*ids, 10)
                for _ in range(4):
                    reservation = ledger.dispatch(reservation, 2)
                ledger.settle(reservation)
            except QueryLimitError:
                continue

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    statement = (
        select(Account.period_key, LedgerEntry.at, LedgerEntry.dispatched)
        .join(Account, Account.id == LedgerEntry.account_id)
        .where(LedgerEntry.dispatched > 0)
    )
    with database.reading() as connection:
        entries = connection.execute(statement).all()
    days = Counter[str]()
    for key, at, dispatched in entries:
        assert key == f"{at:%Y-%m-%d}", "a query counts for the day in which it is dispatched"
        days[key] += dispatched
    assert len(days) > 3 and max(days.values()) <= limit
    assert check_ledger(database, CHAIN_KEY) == []


def test_settled_once_by_many(database: Database, ledger: Ledger, customer: Customer) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 6)
    ledger.dispatch(reservation, 4)
    with ThreadPoolExecutor(THREADS) as pool:
        settlements = set(pool.map(lambda _: ledger.settle(reservation), range(THREADS)))
    assert len(settlements) == 1
    balance = ledger.balance(customer.tenant_id, customer.ensemble_id)
    assert (balance.used, balance.reserved) == (4, 0)
    assert check_ledger(database, CHAIN_KEY) == []


def test_limits_change_while_others_reserve(database: Database, ledger: Ledger, customer: Customer) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 1000)

    def work(number: int) -> None:
        if number % 4 == 0:
            ledger.set_limit(customer.tenant_id, customer.ensemble_id, 1000 + number)
        else:
            ledger.settle(ledger.reserve(customer.tenant_id, customer.ensemble_id, 2))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(60)))
    balance = ledger.balance(customer.tenant_id, customer.ensemble_id)
    assert (balance.used, balance.reserved) == (0, 0)
    assert check_ledger(database, CHAIN_KEY) == []


def test_a_lost_answer_to_a_reservation_reserves_once(lossy: LosesAnswers, customer: Customer) -> None:
    ledger = Ledger(lossy, CHAIN_KEY)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    lossy.lost = 1
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 6)
    assert ledger.balance(customer.tenant_id, customer.ensemble_id).reserved == 6
    lossy.lost = 1
    ledger.settle(reservation)
    assert ledger.balance(customer.tenant_id, customer.ensemble_id).reserved == 0
    assert check_ledger(lossy, CHAIN_KEY) == []


def test_a_lost_answer_to_a_dispatch_is_charged(lossy: LosesAnswers, customer: Customer) -> None:
    """Nobody can know whether the first one counted, so both do: never too few."""
    ledger = Ledger(lossy, CHAIN_KEY)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 6)
    lossy.lost = 1
    ledger.dispatch(reservation, 2)
    assert ledger.settle(reservation).dispatched == 4

    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 6)
    lossy.lost = 10**6
    with pytest.raises(LedgerUnavailableError, match="did not answer within 0 s, so nothing was asked"):
        Ledger(lossy, CHAIN_KEY, patience=timedelta(0)).dispatch(reservation, 1)
    lossy.lost = 0
    assert ledger.settle(reservation).dispatched == 1
    assert check_ledger(lossy, CHAIN_KEY) == []
