"""What somebody changes who owns the database, but not the secret, is found and named; on SQLite and on Postgres."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Connection, event, select, text, update

from app.db import migrations
from app.db.engine import Database, open_database
from app.db.ledger_tables import Account, LedgerEntry, Period
from app.ledger.audit import audit_ledger, check_ledger
from app.ledger.balance import Reservation
from app.ledger.chain import ChainKey
from app.ledger.chain_check import anchor_budget, begin_chains
from app.ledger.ledger import Ledger
from tests.app.conftest import Customer, correct, new_customer
from tests.app.ledger import CHAIN_KEY

Tamper = Callable[[Connection], None]


@pytest.fixture
def reservation_id(database: Database, ledger: Ledger, customer: Customer) -> str:
    """The second of three settled reservations, as it stands in the database; a correction with a reason is behind."""
    ids = (customer.tenant_id, customer.ensemble_id)
    ledger.set_limit(*ids, 100)
    for count in (3, 4, 5):
        reservation = ledger.reserve(*ids, 10)
        ledger.dispatch(reservation, count)
        ledger.settle(reservation)
        if count == 4:
            second = reservation
    correct(database, ledger, customer, -2)
    return second.id.hex


@contextmanager
def owning(database: Database) -> Iterator[Connection]:
    """The database in the hands of its owner: triggers do not protect the ledger from him."""
    postgres = database.engine.dialect.name == "postgresql"
    with database.writing() as connection:
        if postgres:
            connection.execute(text("ALTER TABLE ledger_entries DISABLE TRIGGER ALL"))
            connection.execute(text("ALTER TABLE reservations DISABLE TRIGGER ALL"))
        else:
            for change in ("update", "delete"):
                connection.execute(text(f"DROP TRIGGER IF EXISTS ledger_entries_no_{change}"))
        yield connection


def remove_reservation(connection: Connection, reservation_id: str) -> None:
    """A settled reservation goes with its entries, and the account's sums are mended: to the sums it never was."""
    mine = {"id": reservation_id}
    same = "replace(CAST(reservation_id AS text), '-', '') = :id"
    connection.execute(text(f"DELETE FROM ledger_entries WHERE {same}"), mine)
    connection.execute(text("DELETE FROM reservations WHERE replace(CAST(id AS text), '-', '') = :id"), mine)
    connection.execute(text("UPDATE accounts SET used = used - 4"))


def cut_the_end(connection: Connection) -> None:
    """The newest entry goes, counters, numbers and the head are set back; the old head is not known to anybody."""
    connection.execute(text("DELETE FROM ledger_entries WHERE kind = 'correct'"))
    mac = connection.execute(select(LedgerEntry.mac).order_by(LedgerEntry.id.desc()).limit(1)).scalar_one()
    values = {"mac": mac}
    connection.execute(
        text("UPDATE accounts SET used = used + 2, chain_number = chain_number - 1, chain_head = :mac"), values
    )


def swap(columns: str) -> Tamper:
    """The dispatches of 3 and of 4 change places in some columns: no sum knows."""

    def tamper(connection: Connection) -> None:
        rows = connection.execute(
            text(f"SELECT id, {columns} FROM ledger_entries WHERE dispatched IN (3, 4) ORDER BY id")
        ).all()
        sets = ", ".join(f"{name} = :{name}" for name in columns.split(", "))
        for row, other in (rows, rows[::-1]):
            values = {name: getattr(other, name) for name in columns.split(", ")}
            connection.execute(text(f"UPDATE ledger_entries SET {sets} WHERE id = :id"), values | {"id": row.id})

    return tamper


def run_sql(statement: str) -> Tamper:
    def tamper(connection: Connection) -> None:
        connection.execute(text(statement))

    return tamper


INSERTED = (
    "INSERT INTO ledger_entries "
    "(tenant_id, account_id, kind, at, query_limit, reserved, dispatched, used, number, mac) "
    "SELECT tenant_id, account_id, 'limit', at, 0, 0, 0, 0, {number}, mac FROM ledger_entries WHERE kind = 'open'"
)
TAMPERINGS: dict[str, tuple[Tamper, str]] = {
    "an edited reason": (run_sql("UPDATE ledger_entries SET reason = 'x' WHERE kind = 'correct'"), "was edited"),
    "swapped numbers": (swap("number, mac"), "their order was changed"),
    "swapped moments": (swap("at"), "was edited, or is not where it was written"),
    "an entry without a number": (run_sql(INSERTED.format(number="NULL")), "was inserted"),
    "an entry with a used number": (run_sql(INSERTED.format(number="3")), "was inserted"),
    "the end cut off": (cut_the_end, "newer entries were removed, or the account's row was changed"),
    "a changed head": (run_sql("UPDATE accounts SET chain_number = 99"), "not 99: entries were removed"),
    "a removed limit": (run_sql("DELETE FROM ledger_entries WHERE kind = 'limit'"), "is missing: entries were removed"),
    "another period": (run_sql("UPDATE accounts SET period = 'day'"), "are not the ones opened for it"),
    "the chain taken away": (run_sql("UPDATE accounts SET chain_key = NULL"), "has not begun"),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_tampering_is_named(database: Database, reservation_id: str, name: str) -> None:
    assert check_ledger(database, CHAIN_KEY) == []
    tamper, told = TAMPERINGS[name]
    with owning(database) as connection:
        tamper(connection)
    found = check_ledger(database, CHAIN_KEY)
    assert any(told in sentence for sentence in found), found
    assert len(found) <= 3, "one thing was done"


def test_a_removed_reservation_is_named(database: Database, reservation_id: str) -> None:
    """The sums agree as before: only the chain knows."""
    with owning(database) as connection:
        remove_reservation(connection, reservation_id)
    (found,) = check_ledger(database, CHAIN_KEY)
    assert found.startswith("numbers 6 to 8 of the chain of account") and "entries were removed" in found


@pytest.mark.parametrize("name", ["the end cut off", "an edited reason"])
def test_what_is_written_later_hides_nothing(
    database: Database, ledger: Ledger, customer: Customer, reservation_id: str, name: str
) -> None:
    with owning(database) as connection:
        TAMPERINGS[name][0](connection)
    for writer in (ledger, Ledger(database, CHAIN_KEY)):
        writer.settle(writer.reserve(customer.tenant_id, customer.ensemble_id, 1))
    assert check_ledger(database, CHAIN_KEY) != []


def test_a_removed_account_is_named(database: Database, customer: Customer) -> None:
    ids, day = (customer.tenant_id, customer.ensemble_id), [datetime(2026, 1, 1, tzinfo=UTC)]
    ledger = Ledger(database, CHAIN_KEY, clock=lambda: day[0])
    ledger.set_limit(*ids, 10, Period.DAY)
    for _ in range(3):
        ledger.settle(ledger.reserve(*ids, 1))
        day[0] += timedelta(days=1)
    assert check_ledger(database, CHAIN_KEY) == []
    with owning(database) as connection:
        for table, column in (("ledger_entries", "account_id"), ("reservations", "account_id"), ("accounts", "id")):
            yesterday = "SELECT id FROM accounts WHERE period_key = '2026-01-02'"
            connection.execute(text(f"DELETE FROM {table} WHERE {column} IN ({yesterday})"))
    for _ in range(2):
        (found,) = check_ledger(database, CHAIN_KEY)
        assert "are not the ones opened for it" in found
        ledger.reserve(*ids, 1)  # On the next day: a new account is opened, and hides nothing.


def test_an_older_state_shows_beside_what_was_noted_outside(
    database: Database, ledger: Ledger, customer: Customer, reservation_id: str
) -> None:
    tables = [Account.__table__, LedgerEntry.__table__]
    with database.reading() as connection:
        copy = [connection.execute(select(table)).mappings().all() for table in tables]
    correct(database, ledger, customer, 1)
    noted = audit_ledger(database, CHAIN_KEY).chains
    assert audit_ledger(database, CHAIN_KEY, noted).contradictions == []
    with owning(database) as connection:
        connection.execute(text("DELETE FROM ledger_entries WHERE kind = 'correct' AND used = 1"))
        (account,) = copy[0]
        connection.execute(update(Account).values(dict(account)))
    assert check_ledger(database, CHAIN_KEY) == [], "a copy of an older state is an older state"
    (found,) = audit_ledger(database, CHAIN_KEY, noted).contradictions
    assert "was noted outside, and is not there: an older state was put back" in found


def test_another_secret_is_told_until_a_new_chain_begins(
    database: Database, ledger: Ledger, customer: Customer, reservation_id: str
) -> None:
    other, ids = ChainKey(b"another secret"), (customer.tenant_id, customer.ensemble_id)
    Ledger(database, other).reserve(*ids, 1)
    (found,) = check_ledger(database, other)
    assert "begun with another secret" in found and "`recourse budget begin-chain`" in found
    assert "does not fit its MAC" in check_ledger(database, CHAIN_KEY)[0]
    with database.writing() as connection:
        anchor_budget(connection, other, *ids, datetime.now(UTC), "the secret was lost", "tests")
    audit = audit_ledger(database, other)
    assert audit.contradictions == []
    (end,) = audit.chains
    with database.reading() as connection:
        newest = connection.execute(select(LedgerEntry).order_by(LedgerEntry.id.desc()).limit(1)).one()
    assert (end.since, newest.kind, newest.reason) == (newest.id, "anchor", "the secret was lost")
    Ledger(database, other).reserve(*ids, 1)
    assert check_ledger(database, other) == []
    with owning(database) as connection:
        TAMPERINGS["an edited reason"][0](connection)
    assert len(check_ledger(database, other)) > 0, "the anchor covers what was there"


def test_what_was_there_before_the_chain_is_anchored_once(empty_database_url: str) -> None:
    database = open_database(empty_database_url)
    migrations.upgrade(database)
    customer, ledger = new_customer(database), Ledger(database, CHAIN_KEY)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    ledger.dispatch(reservation := ledger.reserve(customer.tenant_id, customer.ensemble_id, 4), 3)
    migrations.downgrade(database, "0007")
    migrations.upgrade(database)
    (found,) = check_ledger(database, CHAIN_KEY)
    assert "has not begun" in found
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda _: begin_chains(database, CHAIN_KEY), range(4))) == 1
    assert check_ledger(database, CHAIN_KEY) == []
    assert Ledger(database, CHAIN_KEY).settle(reservation).dispatched == 3
    assert check_ledger(database, CHAIN_KEY) == []
    with owning(database) as connection:
        connection.execute(text("UPDATE ledger_entries SET at = '2020-01-01 00:00:00+00:00' WHERE kind = 'dispatch'"))
    assert check_ledger(database, CHAIN_KEY) != []
    with owning(database) as connection:
        connection.execute(text("UPDATE accounts SET chain_head = NULL, chain_key = NULL"))
    new_customer_ids = new_customer(database)
    ledger.set_limit(new_customer_ids.tenant_id, new_customer_ids.ensemble_id, 1)
    assert begin_chains(database, CHAIN_KEY) == 0, "a chain that was taken away does not begin again by itself"
    database.close()


def test_a_warm_step_takes_no_look(database: Database, customer: Customer, ledger: Ledger) -> None:
    """Postgres: reserve and dispatch are one statement each, as without a chain; settle reads its reservation first."""
    ids, statements = (customer.tenant_id, customer.ensemble_id), list[str]()
    ledger.set_limit(*ids, 100)
    ledger.settle(ledger.reserve(*ids, 1))
    event.listen(database.stepper, "before_cursor_execute", lambda *given: statements.append(given[2]))
    counts, known = [], uuid4()
    for step in (
        lambda: ledger.reserve(*ids, 10, known),
        lambda: ledger.dispatch(Reservation(known, ids[0], 1, 10), 1),
        lambda: ledger.settle(Reservation(known, ids[0], 1, 10)),
    ):
        statements.clear()
        step()
        counts.append(len([one for one in statements if not one.startswith("BEGIN")]))
    assert counts == ([1, 1, 2] if database.engine.dialect.name == "postgresql" else [3, 3, 4])
