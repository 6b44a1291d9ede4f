"""The ledger's rules, each on SQLite and on Postgres."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text

from app.db.engine import Database, open_database
from app.db.ledger_tables import Period, State
from app.errors import ConflictError, LedgerUnavailableError, ReservationError, UnknownBudgetError
from app.ledger.audit import check_ledger
from app.ledger.balance import Reservation, following
from app.ledger.ledger import Ledger
from models.errors import ConfigError, QueryLimitError
from tests.app.conftest import Customer, new_customer
from tests.app.ledger import CHAIN_KEY

LEASE = timedelta(minutes=15)


def test_a_limit_that_no_counter_could_hold_is_refused(database: Database, customer: Customer) -> None:
    for limit in (-1, 10**15 + 1, 10**30):
        with pytest.raises(ConfigError, match="makes no sense"):
            Ledger(database, CHAIN_KEY).set_limit(customer.tenant_id, customer.ensemble_id, limit)
    assert Ledger(database, CHAIN_KEY).set_limit(customer.tenant_id, customer.ensemble_id, 10**15).remaining == 10**15


class Time:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 31, 23, 50, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, span: timedelta) -> None:
        self.now += span


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def ledger(database: Database, time: Time) -> Ledger:
    return Ledger(database, CHAIN_KEY, clock=time, lease=LEASE)


def counters(ledger: Ledger, customer: Customer) -> tuple[int, int]:
    balance = ledger.balance(customer.tenant_id, customer.ensemble_id)
    return balance.used, balance.reserved


def test_a_reservation_runs_its_course(ledger: Ledger, customer: Customer, database: Database) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 6)
    assert counters(ledger, customer) == (0, 6)
    ledger.dispatch(reservation, 2)
    ledger.dispatch(reservation, 2)
    assert counters(ledger, customer) == (0, 6)
    settlement = ledger.settle(reservation)
    assert (settlement.state, settlement.dispatched, settlement.released) == (State.SETTLED, 4, 2)
    assert counters(ledger, customer) == (4, 0)
    assert ledger.settle(reservation) == settlement, "a second settle changes nothing"
    assert counters(ledger, customer) == (4, 0)
    assert check_ledger(database, CHAIN_KEY) == []


def test_the_last_unit_fits_and_no_more(ledger: Ledger, customer: Customer) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    ledger.reserve(customer.tenant_id, customer.ensemble_id, 7)
    with pytest.raises(QueryLimitError, match=r"4 queries were asked for, but 3 of 10 remain \(0 used, 7 reserved\)"):
        ledger.reserve(customer.tenant_id, customer.ensemble_id, 4)
    ledger.reserve(customer.tenant_id, customer.ensemble_id, 3)
    with pytest.raises(QueryLimitError):
        ledger.reserve(customer.tenant_id, customer.ensemble_id, 1)


def test_no_budget_no_query(ledger: Ledger, customer: Customer) -> None:
    with pytest.raises(UnknownBudgetError, match="set no budget"):
        ledger.reserve(customer.tenant_id, customer.ensemble_id, 1)


def test_more_than_reserved_cannot_be_dispatched(ledger: Ledger, customer: Customer) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 3)
    ledger.dispatch(reservation, 2)
    with pytest.raises(QueryLimitError, match="2 queries were asked for, but 1 of 3 reserved remain"):
        ledger.dispatch(reservation, 2)
    ledger.dispatch(reservation, 1)


@pytest.mark.parametrize("count", [0, -1])
def test_counts_are_positive(ledger: Ledger, customer: Customer, count: int) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 3)
    with pytest.raises(ConfigError):
        ledger.reserve(customer.tenant_id, customer.ensemble_id, count)
    with pytest.raises(ConfigError):
        ledger.dispatch(reservation, count)
    with pytest.raises(ConfigError):
        ledger.set_limit(customer.tenant_id, customer.ensemble_id, -1)


def test_expiry_charges_what_was_dispatched(ledger: Ledger, customer: Customer, time: Time) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 6)
    ledger.dispatch(reservation, 4)
    time.pass_by(LEASE - timedelta(seconds=1))
    assert ledger.expire() == []
    time.pass_by(timedelta(seconds=1))
    with pytest.raises(ReservationError, match="overdue since"):
        ledger.dispatch(reservation, 1)
    (settlement,) = ledger.expire()
    assert (settlement.state, settlement.dispatched, settlement.released) == (State.EXPIRED, 4, 2)
    assert counters(ledger, customer) == (4, 0)
    assert ledger.settle(reservation) == settlement, "settling later finds it closed"
    with pytest.raises(ReservationError, match="is expired since"):
        ledger.dispatch(reservation, 1)


def test_a_dispatch_or_a_renewal_keeps_the_lease(ledger: Ledger, customer: Customer, time: Time) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 6)
    for _ in range(2):
        time.pass_by(LEASE * 0.9)
        ledger.dispatch(reservation, 1)
        time.pass_by(LEASE * 0.9)
        ledger.renew(reservation)
        assert ledger.expire() == []
    time.pass_by(LEASE)
    with pytest.raises(ReservationError, match="overdue"):
        ledger.renew(reservation)


def test_what_a_crash_left_reserved_is_freed_when_it_is_needed(ledger: Ledger, customer: Customer, time: Time) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    ledger.dispatch(ledger.reserve(customer.tenant_id, customer.ensemble_id, 8), 1)
    time.pass_by(LEASE)
    ledger.reserve(customer.tenant_id, customer.ensemble_id, 9)
    assert counters(ledger, customer) == (1, 9)


def test_the_old_owner_can_do_nothing_after_a_takeover(ledger: Ledger, customer: Customer) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    old = ledger.reserve(customer.tenant_id, customer.ensemble_id, 6)
    ledger.dispatch(old, 1)
    new = ledger.take_over(customer.tenant_id, old.id)
    for attempt in (lambda: ledger.dispatch(old, 1), lambda: ledger.settle(old), lambda: ledger.renew(old)):
        with pytest.raises(ReservationError, match=r"taken over \(fence 2, ours is 1\)"):
            attempt()
    ledger.dispatch(new, 5)
    assert ledger.settle(new).dispatched == 6
    with pytest.raises(ReservationError, match="not open"):
        ledger.take_over(customer.tenant_id, old.id)


def test_a_lowered_limit_stops_new_reservations_and_loses_nothing(
    ledger: Ledger, customer: Customer, database: Database
) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 8)
    ledger.dispatch(reservation, 2)
    balance = ledger.set_limit(customer.tenant_id, customer.ensemble_id, 3)
    assert (balance.limit, balance.reserved, balance.remaining) == (3, 8, 0)
    with pytest.raises(QueryLimitError):
        ledger.reserve(customer.tenant_id, customer.ensemble_id, 1)
    ledger.dispatch(reservation, 2)
    ledger.settle(reservation)
    assert counters(ledger, customer) == (4, 0)
    with pytest.raises(QueryLimitError, match="0 of 3 remain"):
        ledger.reserve(customer.tenant_id, customer.ensemble_id, 1)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 5)
    ledger.reserve(customer.tenant_id, customer.ensemble_id, 1)
    assert check_ledger(database, CHAIN_KEY) == []


@pytest.mark.parametrize(
    ("period", "keys"),
    [(Period.DAY, ("2026-01-31", "2026-02-01")), (Period.MONTH, ("2026-01", "2026-02"))],
)
def test_a_period_turns(
    ledger: Ledger, customer: Customer, time: Time, database: Database, period: Period, keys: tuple[str, str]
) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10, period)
    over_midnight = ledger.reserve(customer.tenant_id, customer.ensemble_id, 10)
    ledger.dispatch(over_midnight, 2)
    balance = ledger.balance(customer.tenant_id, customer.ensemble_id)
    assert (balance.period_key, balance.period_ends) == (keys[0], datetime(2026, 2, 1, tzinfo=UTC))
    time.pass_by(timedelta(minutes=10))
    assert ledger.balance(customer.tenant_id, customer.ensemble_id).period_key == keys[1]
    assert counters(ledger, customer) == (0, 0)
    fresh = ledger.reserve(customer.tenant_id, customer.ensemble_id, 10)
    ledger.dispatch(fresh, 10)
    with pytest.raises(QueryLimitError, match="8 queries were asked for, but 0 of 10 remain"):
        ledger.dispatch(over_midnight, 7)
    assert counters(ledger, customer) == (0, 10), "never 20 in a period of 10"
    assert ledger.settle(over_midnight).dispatched == 2, "and those were charged to the period before"
    assert check_ledger(database, CHAIN_KEY) == []


def test_what_is_left_goes_on_in_the_next_period_where_there_is_room(
    ledger: Ledger, customer: Customer, time: Time, database: Database
) -> None:
    ids = customer.tenant_id, customer.ensemble_id
    ledger.set_limit(*ids, 10, Period.DAY)
    old = ledger.reserve(*ids, 6)
    assert ledger.dispatch(old, 2) is old
    time.pass_by(timedelta(minutes=10))
    new = ledger.dispatch(old, 3)
    assert (new.id, new.amount) == (following(old.id), 4)
    assert ledger.dispatch(new, 1) is new
    with pytest.raises(QueryLimitError, match="1 queries were asked for, but 0 of 4 reserved remain"):
        ledger.dispatch(new, 1)
    with pytest.raises(ReservationError, match="is settled since"):
        ledger.dispatch(old, 1)
    assert counters(ledger, customer) == (0, 4)
    ledger.settle(new)
    assert counters(ledger, customer) == (4, 0)
    assert check_ledger(database, CHAIN_KEY) == []


def test_who_lost_a_reservation_moves_nothing_into_the_next_period(
    ledger: Ledger, customer: Customer, time: Time
) -> None:
    ids = customer.tenant_id, customer.ensemble_id
    ledger.set_limit(*ids, 10, Period.DAY)
    lost = ledger.reserve(*ids, 6)
    taken = ledger.take_over(lost.tenant_id, lost.id)
    time.pass_by(timedelta(minutes=10))
    with pytest.raises(ReservationError, match="was taken over"):
        ledger.dispatch(lost, 1)
    assert ledger.dispatch(taken, 1).id == following(lost.id)


def test_the_period_itself_can_change(ledger: Ledger, customer: Customer, time: Time, database: Database) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10, Period.NONE)
    ledger.reserve(customer.tenant_id, customer.ensemble_id, 10)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 4, Period.DAY, restart=True)
    ledger.reserve(customer.tenant_id, customer.ensemble_id, 4)
    time.pass_by(timedelta(days=1))
    ledger.reserve(customer.tenant_id, customer.ensemble_id, 4)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 12, Period.NONE, restart=True)
    with pytest.raises(QueryLimitError, match="0 of 12 remain"):
        # What the first budget reserved is overdue by now and was released, so only the new limit counts.
        ledger.reserve(customer.tenant_id, customer.ensemble_id, 12)
        ledger.reserve(customer.tenant_id, customer.ensemble_id, 1)
    assert check_ledger(database, CHAIN_KEY) == []


def test_another_period_counts_anew_only_if_that_is_said(
    ledger: Ledger, customer: Customer, time: Time, database: Database
) -> None:
    ids = customer.tenant_id, customer.ensemble_id
    assert ledger.set_limit(*ids, 10).period is Period.NONE
    assert ledger.set_limit(*ids, 10, Period.MONTH).period is Period.MONTH, "nothing was used, nothing is forgotten"
    reservation = ledger.reserve(*ids, 6)
    told = r"0 queries are used and 6 reserved in the period '2026-01', the period '2026-01-31' would count from 0"
    with pytest.raises(ConflictError, match=told):
        ledger.set_limit(*ids, 10, Period.DAY)
    ledger.dispatch(reservation, 6)
    ledger.settle(reservation)
    with pytest.raises(ConflictError, match="6 queries are used"):
        ledger.check_period(*ids, Period.DAY)
    kept = ledger.set_limit(*ids, 8)
    assert (kept.period, kept.limit, kept.used) == (Period.MONTH, 8, 6), "a refusal changes nothing, a limit no period"
    ledger.check_period(*ids, Period.MONTH)
    ledger.check_period(*ids, None)
    again = ledger.set_limit(*ids, 10, Period.DAY, restart=True)
    assert (again.period_key, again.used) == ("2026-01-31", 0)
    ledger.reserve(*ids, 1)
    with pytest.raises(ConflictError, match="the period '2026-01' would count from 6"):
        ledger.set_limit(*ids, 10, Period.MONTH)
    assert ledger.set_limit(*ids, 10, Period.MONTH, restart=True).used == 6
    assert check_ledger(database, CHAIN_KEY) == []


def test_tenants_do_not_share(ledger: Ledger, customer: Customer, database: Database) -> None:
    other = new_customer(database)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 5)
    stolen = Reservation(reservation.id, other.tenant_id, reservation.fence, reservation.amount)
    with pytest.raises(UnknownBudgetError):
        ledger.reserve(other.tenant_id, customer.ensemble_id, 1)
    for attempt in (lambda: ledger.dispatch(stolen, 1), lambda: ledger.settle(stolen), lambda: ledger.renew(stolen)):
        with pytest.raises(ReservationError, match="does not exist for tenant"):
            attempt()
    with pytest.raises(ReservationError):
        ledger.take_over(other.tenant_id, reservation.id)


def test_an_unknown_reservation_is_named(ledger: Ledger, customer: Customer) -> None:
    unknown = Reservation(uuid4(), customer.tenant_id, 1, 1)
    with pytest.raises(ReservationError, match=str(unknown.id)):
        ledger.dispatch(unknown, 1)


def test_without_tables_the_error_says_migrate(empty_database_url: str) -> None:
    database = open_database(empty_database_url)
    ledger = Ledger(database, CHAIN_KEY, patience=timedelta(0))
    with pytest.raises(LedgerUnavailableError, match="recourse migrate"):
        ledger.reserve(1, 1, 1)
    database.close()


def test_the_check_names_what_is_wrong(ledger: Ledger, customer: Customer, database: Database) -> None:
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 5)
    ledger.dispatch(reservation, 2)
    with database.writing() as connection:
        connection.execute(text("UPDATE accounts SET used = used + 1"))
        connection.execute(text("UPDATE reservations SET dispatched = 4"))
        connection.execute(
            text(
                "INSERT INTO ledger_entries (tenant_id, account_id, kind, at, query_limit, reserved, dispatched, used) "
                "VALUES (0, 0, 'limit', '2026-01-01 00:00:00', 0, 0, 0, 0)"
            )
        )
    found = check_ledger(database, CHAIN_KEY)
    assert sum("says used 1" in sentence for sentence in found) == 2
    assert any("its entries sum to 0" in sentence for sentence in found)
    assert any("dispatched 4, its entries sum to 2" in sentence for sentence in found)
    assert any("not there" in sentence for sentence in found)
    assert sum("chain" in sentence for sentence in found) == 0, "the counters are what was changed"
    assert len(found) == 4


def test_all_that_is_overdue_is_expired_however_much(
    database: Database, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What other tenants' crashes left behind must not hide what is in the way of this one."""
    monkeypatch.setattr("app.ledger.ledger.EXPIRE_BATCH", 2)
    clock = Time()
    ledger, other = Ledger(database, CHAIN_KEY, clock), new_customer(database)
    for owner in (other, customer):
        ledger.set_limit(owner.tenant_id, owner.ensemble_id, 10)
    for owner in (other, other, other, other, other, customer):
        ledger.reserve(owner.tenant_id, owner.ensemble_id, 2)
    clock.pass_by(2 * LEASE)
    assert ledger.reserve(customer.tenant_id, customer.ensemble_id, 10).amount == 10
    assert ledger.balance(other.tenant_id, other.ensemble_id).reserved == 0


def test_what_callers_read_names_no_host() -> None:
    """The driver's message does, and it was passed on."""
    database = open_database("postgresql://recourse:hunter2@127.0.0.1:1/recourse")
    with pytest.raises(LedgerUnavailableError, match="the ledger's database did not answer") as refused:
        Ledger(database, CHAIN_KEY, patience=timedelta(0)).balance(1, 1)
    assert "127.0.0.1" not in str(refused.value) and "127.0.0.1" in str(refused.value.__cause__)
    database.close()
