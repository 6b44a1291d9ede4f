"""What crashed processes leave behind is tidied up, and one chore that fails does not stop the others."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest

from app import main
from app.auth import queries
from app.db.engine import Database
from app.db.ledger_tables import Period
from app.db.tables import utc_now
from app.idempotency import Keep, KeyedBody, StoredReply
from app.ledger.ledger import Ledger
from app.resources import Resources, gather
from app.settings import Settings
from app.train import jobs
from app.train.service import settle_reservation
from tests.app.conftest import Customer
from tests.app.ledger import CHAIN_KEY
from tests.fakes.service import Bell, SilentExplainer


@pytest.fixture
def resources(database: Database, tmp_path: Path) -> Resources:
    return gather(Settings(var_dir=tmp_path), database, SilentExplainer(), Bell())


def crash(database: Database, customer: Customer) -> UUID:
    """A reservation whose owner is gone, a job that nobody was told of."""
    ledger = Ledger(database, CHAIN_KEY, clock=lambda: utc_now() - timedelta(hours=1))
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    ledger.dispatch(ledger.reserve(customer.tenant_id, customer.ensemble_id, 8), 3)
    job_id = uuid4()
    with database.writing() as connection:
        jobs.add_job(connection, customer.tenant_id, job_id, "loans", {}, utc_now())
    return job_id


def test_all_is_tidied(resources: Resources, database: Database, customer: Customer) -> None:
    job_id = crash(database, customer)
    main.maintain(resources)
    balance = resources.ledger.balance(customer.tenant_id, customer.ensemble_id)
    assert (balance.used, balance.reserved) == (3, 0)
    assert isinstance(resources.queue, Bell) and resources.queue.rung == [job_id]


def test_keys_are_forgotten_when_they_are_old(
    resources: Resources, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> bool:
        async def work(keep: Keep) -> StoredReply:
            return StoredReply(200, "{}")

        key = KeyedBody.of("k", b"")
        return anyio.run(resources.idempotent.run, customer.tenant_id, "/train", key, work).replayed

    assert not ask()
    main.maintain(resources)
    assert ask(), "it is young"
    monkeypatch.setattr(main, "utc_now", lambda: utc_now() + timedelta(hours=25))
    main.maintain(resources)
    assert not ask()


def test_ended_sessions_are_forgotten_when_they_are_over(
    resources: Resources, database: Database, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = uuid4()
    with database.writing() as connection:
        queries.end_session(connection, customer.tenant_id, session_id, utc_now() + timedelta(hours=12))

    def is_known() -> bool:
        with database.reading() as connection:
            return queries.session_is_ended(connection, customer.tenant_id, session_id)

    main.maintain(resources)
    assert is_known(), "its cookie would open something"
    monkeypatch.setattr(main, "utc_now", lambda: utc_now() + timedelta(hours=13))
    main.maintain(resources)
    assert not is_known()


def test_one_that_fails_does_not_stop_the_others(
    resources: Resources, database: Database, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = crash(database, customer)

    def fail(ledger: Ledger) -> None:
        raise RuntimeError("the books are on fire")

    monkeypatch.setattr(Ledger, "expire", fail)
    main.maintain(resources)
    assert isinstance(resources.queue, Bell) and resources.queue.rung == [job_id]


def test_a_job_that_went_on_in_the_next_period_leaves_nothing_reserved(database: Database, customer: Customer) -> None:
    """Its row names the reservation that it began with."""
    now = [datetime(2026, 1, 31, 23, 55, tzinfo=UTC)]
    ids, ledger = (customer.tenant_id, customer.ensemble_id), Ledger(database, CHAIN_KEY, clock=lambda: now[0])
    ledger.set_limit(*ids, 10, Period.DAY)
    first = ledger.reserve(*ids, 8)
    now[0] += timedelta(minutes=10)
    ledger.dispatch(first, 3)
    job: Any = SimpleNamespace(tenant_id=ids[0], reservation_id=first.id)
    settle_reservation(database, ledger, job)
    balance = ledger.balance(*ids)
    assert (balance.used, balance.reserved) == (3, 0)
