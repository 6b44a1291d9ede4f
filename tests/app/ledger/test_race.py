"""Eight processes, one budget, SIGKILL at random moments: never one query too many."""

import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from app.db.engine import Database
from app.db.ledger_tables import ReservationRow, State
from app.db.tables import OPERATOR
from app.ensembles import bindings, service
from app.ledger.audit import check_ledger
from app.ledger.ledger import Ledger
from tests.app.conftest import Customer
from tests.app.ledger import CHAIN_KEY, race
from tests.patience import PATIENCE

LIMIT = 5000
SECONDS = 120.0 * PATIENCE


@pytest.mark.parametrize("at_endpoint", [False, True], ids=["budget", "budget and endpoint"])
def test_killed_processes_never_overspend(
    database: Database, database_url: str, customer: Customer, tmp_path: Path, at_endpoint: bool
) -> None:
    ledger = Ledger(database, CHAIN_KEY, lease=timedelta(seconds=1))
    owners = [(customer.tenant_id, customer.ensemble_id)]
    if at_endpoint:
        with database.writing() as connection:
            service.bind_endpoint(connection, "endpoint", "https://lender.example", [customer.tenant_id])
            owners += [(OPERATOR, row.ensemble_id) for row in bindings.list_bound(connection)]
    for owner in owners:
        ledger.set_limit(*owner, LIMIT)
    for name in ("calls", "kills"):
        (tmp_path / name).touch()
    limited = owners[1][1] if at_endpoint else 0
    command = [sys.executable, "-m", race.__name__, database_url, *owners[0], limited, tmp_path, SECONDS]
    subprocess.run([*map(str, command)], check=True, timeout=SECONDS * 3)

    kills = Counter((tmp_path / "kills").read_text().splitlines())
    assert set(kills) == set(race.MOMENTS), f"not every moment was tried: {kills}"
    calls = (tmp_path / "calls").stat().st_size
    spent = [dispatched(database, tenant_id) for tenant_id, _ in owners]
    assert sorted([calls, *spent, LIMIT]) == [calls, *spent, LIMIT], "the endpoint's budget counts no fewer"
    assert calls > LIMIT / 5, "the race must spend the budget to show anything"

    time.sleep(race.LEASE.total_seconds())
    ledger.expire()
    for owner in owners:
        balance = ledger.balance(*owner)
        assert (balance.used, balance.reserved) == (dispatched(database, owner[0]), 0)
    assert check_ledger(database, CHAIN_KEY) == []
    with database.reading() as connection:
        states = set(connection.execute(select(ReservationRow.state).distinct()).scalars())
    assert states == {State.SETTLED, State.EXPIRED}


def dispatched(database: Database, tenant_id: int) -> int:
    with database.reading() as connection:
        mine = select(func.sum(ReservationRow.dispatched)).where(ReservationRow.tenant_id == tenant_id)
        return int(connection.execute(mine).scalar_one())
