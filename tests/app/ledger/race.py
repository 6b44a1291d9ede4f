"""Eight processes race for one budget and are killed at the worst moments: `python -m tests.app.ledger.race ...`.

The black box is a file: each query appends one byte, which outlives the process that wrote it. So do the notes of where
each process was killed. A killed process is replaced; after enough of them the last ones use the budget up. Where the
operator has limited the endpoint, each query passes both budgets.
"""

import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from app.db.engine import open_database
from app.db.tables import OPERATOR
from app.ensembles.bought import Allowance, EndpointLimit
from app.errors import ReservationError
from app.ledger.ledger import Ledger
from models.errors import QueryLimitError
from tests.app.ledger import CHAIN_KEY

PROCESSES = 8
LEASE = timedelta(seconds=1)
MOMENTS = ("before dispatch", "between dispatch and call", "after the call", "before settle")
KILLS = 40
LARGEST = 100


@dataclass(frozen=True)
class Race:
    """What every process needs to know."""

    database_url: str
    tenant_id: int
    ensemble_id: int
    limited: int
    """The operator's row of the endpoint; 0 for none."""
    calls: Path
    kills: Path
    ends_at: float


@dataclass
class Death:
    """The moment at which a process dies, and how often it gets there before."""

    moment: str | None
    passes: int

    @classmethod
    def of(cls, seed: int) -> "Death":
        """Every moment has its turn among the first processes; the last ones live."""
        return cls(MOMENTS[seed % len(MOMENTS)] if seed < KILLS else None, random.Random(-seed).randint(0, 4))

    def perhaps(self, race: Race, moment: str) -> None:
        if moment == self.moment:
            self.passes -= 1
            if self.passes < 0:
                _append(race.kills, f"{moment}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)


def run(race: Race) -> None:
    """Keep eight processes alive until each of them has ended by itself."""
    open_database(race.database_url)  # Loads the driver once, here, and not in each of the processes.
    seed = 0
    alive: set[int] = set()
    while seed < PROCESSES or alive:
        if seed < PROCESSES:
            alive.add(_start(race, seed))
            seed += 1
            continue
        pid, status = os.wait()
        alive.discard(pid)
        if os.WIFSIGNALED(status):
            alive.add(_start(race, seed))
            seed += 1
        elif status:
            raise SystemExit(f"process {pid} failed with status {status}")


def _start(race: Race, seed: int) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _work(race, random.Random(seed), Death.of(seed))
            code = 0
        finally:
            os._exit(code)
    return pid


def _work(race: Race, chance: random.Random, death: Death) -> None:
    ledger = Ledger(open_database(race.database_url, pool_size=1), CHAIN_KEY, lease=LEASE)
    most = LARGEST
    while time.time() < race.ends_at:
        try:
            _one_request(race, ledger, chance, death, chance.randint(1, most))
        except QueryLimitError:
            balances = [ledger.balance(race.tenant_id, race.ensemble_id)]
            balances += [ledger.balance(OPERATOR, race.limited)] if race.limited else []
            if any(balance.used == balance.limit for balance in balances):
                return
            most = min(LARGEST, max(1, min(balance.remaining for balance in balances)))
            time.sleep(0.05)
        except ReservationError:
            continue  # Too slow: the lease passed and another process expired the reservation.


def _one_request(race: Race, ledger: Ledger, chance: random.Random, death: Death, left: int) -> None:
    reservation = ledger.reserve(race.tenant_id, race.ensemble_id, left)
    limits = [EndpointLimit("endpoint", OPERATOR, race.limited)] if race.limited else []
    allowance = Allowance(ledger, race.tenant_id, race.ensemble_id, left, reservation, limits)
    death.perhaps(race, MOMENTS[0])
    while left and chance.random() > 0.1:
        count = chance.randint(1, min(left, 25))
        try:
            allowance.dispatch(count)
        except QueryLimitError:
            allowance.settle()
            raise
        death.perhaps(race, MOMENTS[1])
        _append(race.calls, b"." * count)
        death.perhaps(race, MOMENTS[2])
        left -= count
    death.perhaps(race, MOMENTS[3])
    allowance.settle()


def _append(path: Path, data: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(data)


if __name__ == "__main__":
    url, tenant, ensemble, limited, folder, seconds = sys.argv[1:]
    home, end = Path(folder), time.time() + float(seconds)
    run(Race(url, int(tenant), int(ensemble), int(limited), home / "calls", home / "kills", end))
