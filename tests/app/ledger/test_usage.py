"""Usage series and the CSV export."""

import csv
from datetime import UTC, datetime, timedelta

from app.auth import queries
from app.db.engine import Database
from app.ensembles import directory
from app.ledger.audit import COLUMNS, Step, UsagePoint, ledger_csv, usage_series
from app.ledger.ledger import Ledger
from tests.app.conftest import Customer, new_customer
from tests.app.ledger import CHAIN_KEY

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def spend(database: Database, customer: Customer, at: datetime, *counts: int) -> None:
    """One settled reservation, with a dispatch of each count."""
    ledger = Ledger(database, CHAIN_KEY, clock=lambda: at)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 1000)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 100)
    for count in counts:
        ledger.dispatch(reservation, count)
    ledger.settle(reservation)


def test_usage_by_hour_and_by_day(database: Database, customer: Customer) -> None:
    for hours, counts in ((0, (3, 4)), (0.9, (1,)), (1, (5,)), (30, (2,))):
        spend(database, customer, NOON + timedelta(hours=hours), *counts)
    spend(database, new_customer(database), NOON, 50)
    ids = (customer.tenant_id, customer.ensemble_id)
    until = NOON + timedelta(days=3)
    assert usage_series(database, *ids, Step.HOUR, NOON, until) == [
        UsagePoint(NOON, 8, 8),
        UsagePoint(NOON + timedelta(hours=1), 5, 13),
        UsagePoint(NOON + timedelta(hours=30), 2, 15),
    ]
    day = NOON.replace(hour=0)
    assert usage_series(database, *ids, Step.DAY, day, until) == [
        UsagePoint(day, 13, 13),
        UsagePoint(day + timedelta(days=1), 2, 15),
    ]
    assert usage_series(database, *ids, Step.HOUR, NOON + timedelta(hours=1), NOON + timedelta(hours=2)) == [
        UsagePoint(NOON + timedelta(hours=1), 5, 5)
    ]


def test_the_export_has_every_entry_and_adds_up(database: Database, customer: Customer) -> None:
    spend(database, customer, NOON, 3, 4)
    spend(database, new_customer(database), NOON, 50)
    text = "".join(ledger_csv(database, customer.tenant_id, customer.ensemble_id))
    rows = list(csv.DictReader(text.splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert [row["kind"] for row in rows] == ["open", "limit", "reserve", "dispatch", "dispatch", "settle"]
    sums = {
        column: sum(int(row[column]) for row in rows) for column in ("query_limit", "reserved", "dispatched", "used")
    }
    assert sums == {"query_limit": 1000, "reserved": 0, "dispatched": 7, "used": 7}
    assert {row["at"] for row in rows} == {NOON.isoformat()}


def test_a_name_cannot_be_a_formula(database: Database) -> None:
    with database.writing() as connection:
        tenant_id = queries.add_tenant(connection, "lender", NOON)
        ensemble_id = directory.add_ensemble(connection, tenant_id, '=cmd|"x",\n', "1", NOON)
    spend(database, Customer(tenant_id, ensemble_id), NOON, 1)
    rows = list(csv.DictReader("".join(ledger_csv(database, tenant_id, ensemble_id)).splitlines(keepends=True)))
    assert {row["ensemble"] for row in rows} == {'\'=cmd|"x",\n'}
