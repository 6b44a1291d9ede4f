"""Connections that the server ends at any moment, while limits fall and rise: never one query too many."""

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from threading import Event, Lock, Thread

import psycopg
import pytest
from sqlalchemy import func, make_url, select

from app.db.engine import Database, open_database
from app.db.ledger_tables import Account, ReservationRow
from app.db.tables import OPERATOR
from app.ensembles import bindings, service
from app.ensembles.bought import Allowance, EndpointLimit
from app.errors import LedgerUnavailableError, ReservationError
from app.ledger.audit import check_ledger
from app.ledger.ledger import Ledger
from models.errors import QueryLimitError
from tests.app.conftest import Customer, new_customer
from tests.app.ledger import CHAIN_KEY

CLIENTS = 4
REQUESTS = 15
HIGH, LOW = 400, 60
LEASE = timedelta(seconds=2)
END_SOME = """
SELECT count(pg_terminate_backend(pid)) FROM (
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    ORDER BY random() LIMIT 2
) AS unlucky
"""


@contextmanager
def ending_connections(url: str) -> Iterator[Counter[str]]:
    """Two of the database's connections at a time; how many were ended."""
    ended, over = Counter[str](), Event()

    def storm() -> None:
        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain, autocommit=True) as connection:
            while not over.wait(0.1):
                row = connection.execute(END_SOME).fetchone()
                ended["connections"] += 0 if row is None else int(row[0])

    thread = Thread(target=storm)
    thread.start()
    try:
        yield ended
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_ended_connections_and_falling_limits(database: Database, database_url: str, customer: Customer) -> None:
    """Two tenants, and an endpoint that both ask."""
    customers = [customer, new_customer(database)]
    with database.writing() as connection:
        service.bind_endpoint(connection, "shared", "https://lender.example", [one.tenant_id for one in customers])
        (bound,) = bindings.list_bound(connection)
    limit = EndpointLimit("shared", OPERATOR, bound.ensemble_id)
    owners = [(one.tenant_id, one.ensemble_id) for one in customers]
    ledger = Ledger(database, CHAIN_KEY, lease=LEASE)
    for owner in (*owners, (OPERATOR, bound.ensemble_id)):
        ledger.set_limit(*owner, HIGH)
    calls, lock = Counter[int](), Lock()

    def ask(number: int) -> None:
        chance, owner = random.Random(number), owners[number % 2]
        with closing(open_database(database_url, pool_size=2)) as mine:
            books = Ledger(mine, CHAIN_KEY, lease=LEASE, patience=LEASE)
            for _ in range(REQUESTS):
                allowance = Allowance(books, *owner, 8, limits=[limit])
                # What a request holds that breaks off comes back with its lease.
                with suppress(QueryLimitError, ReservationError, LedgerUnavailableError):
                    for _ in range(chance.randint(1, 4)):
                        allowance.dispatch(count := chance.randint(1, 2))
                        with lock:
                            calls[owner[0]] += count
                    allowance.settle()

    def turn_limits(over: Event) -> None:
        with closing(open_database(database_url, pool_size=2)) as mine:
            books = Ledger(mine, CHAIN_KEY)
            while not over.wait(0.05):
                for owner in (*owners, (OPERATOR, bound.ensemble_id)):
                    with suppress(LedgerUnavailableError):
                        books.set_limit(*owner, random.choice((LOW, HIGH)))

    over = Event()
    with ending_connections(database_url) as ended, ThreadPoolExecutor(CLIENTS + 1) as pool:
        turning = pool.submit(turn_limits, over)
        for done in [pool.submit(ask, number) for number in range(CLIENTS)]:
            done.result()
        over.set()
        turning.result()
    assert ended["connections"] > CLIENTS and sum(calls.values()) > LOW / 2

    with database.reading() as connection:
        summed = select(ReservationRow.tenant_id, func.sum(ReservationRow.dispatched)).group_by(
            ReservationRow.tenant_id
        )
        spent = {tenant_id: int(count) for tenant_id, count in connection.execute(summed)}
        accounts = connection.execute(select(Account.__table__)).all()
    assert all(calls[tenant_id] <= spent.get(tenant_id, 0) for tenant_id, _ in owners)
    assert sum(calls.values()) <= spent[OPERATOR], "the endpoint's own budget counts no fewer"
    assert all(one.used + one.reserved <= one.ceiling <= HIGH for one in accounts)
    assert check_ledger(database, CHAIN_KEY) == []
