"""Eight processes, one budget, SIGKILL at random moments: never one query too many."""

import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

from sqlalchemy import func, select

from app.db.engine import Database
from app.db.ledger_tables import ReservationRow, State
from app.ledger.audit import check_ledger
from app.ledger.ledger import Ledger
from tests.app.conftest import Customer
from tests.app.ledger import CHAIN_KEY, race
from tests.patience import PATIENCE

LIMIT = 5000
SECONDS = 120.0 * PATIENCE


def test_killed_processes_never_overspend(
    database: Database, database_url: str, customer: Customer, tmp_path: Path
) -> None:
    ledger = Ledger(database, CHAIN_KEY, lease=timedelta(seconds=1))
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, LIMIT)
    for name in ("calls", "kills"):
        (tmp_path / name).touch()
    command = [sys.executable, "-m", race.__name__, database_url, customer.tenant_id, customer.ensemble_id, tmp_path]
    subprocess.run([*map(str, command), str(SECONDS)], check=True, timeout=SECONDS * 3)

    kills = Counter((tmp_path / "kills").read_text().splitlines())
    assert set(kills) == set(race.MOMENTS), f"not every moment was tried: {kills}"
    calls = (tmp_path / "calls").stat().st_size
    assert calls <= dispatched(database) <= LIMIT
    assert calls > LIMIT / 5, "the race must spend the budget to show anything"

    time.sleep(race.LEASE.total_seconds())
    ledger.expire()
    balance = ledger.balance(customer.tenant_id, customer.ensemble_id)
    assert (balance.used, balance.reserved) == (dispatched(database), 0)
    assert check_ledger(database, CHAIN_KEY) == []
    with database.reading() as connection:
        states = set(connection.execute(select(ReservationRow.state).distinct()).scalars())
    assert states == {State.SETTLED, State.EXPIRED}


def dispatched(database: Database) -> int:
    with database.reading() as connection:
        return int(connection.execute(select(func.sum(ReservationRow.dispatched))).scalar_one())
