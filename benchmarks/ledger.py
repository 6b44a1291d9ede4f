"""Reservations a second beside a bare guarded UPDATE, same machine and same run: `python -m benchmarks.ledger`.

Three ways to take one unit from a budget, in turn, several rounds each, every client a process of its own:
ledger: `Ledger.reserve`, that is the guarded UPDATE, the reservation and the ledger's entry, durable and atomic;
bare:   the guarded UPDATE alone, over the same connections;
driver: the guarded UPDATE alone, prepared, on a connection that the client keeps for itself, without SQLAlchemy.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import matplotlib.pyplot as plt
import psycopg
from sqlalchemy import text

from app.auth import queries
from app.db import migrations
from app.db.engine import open_database
from app.db.tables import utc_now
from app.ensembles import directory
from app.ledger.audit import check_ledger
from app.ledger.ledger import Ledger
from tests.app.ledger import CHAIN_KEY
from tests.servers.postgres import new_database, own_postgres

RESULTS = Path(__file__).parent / "results"
BUDGETS = 100
LIMIT = 10**12
WARM_UP = 12
WAYS = ("ledger", "bare", "driver")
GUARDED = "UPDATE accounts SET reserved = reserved + 1 WHERE id = {} AND used + reserved + 1 <= query_limit"
FORK = get_context("fork")


@dataclass(frozen=True)
class Measurement:
    """Units taken a second, medians over the rounds; `spread` is (max - min) / median of the ledger's own rounds."""

    database: str
    budgets: int
    clients: int
    ledger: float
    bare: float
    driver: float
    ratio: float
    ratio_to_driver: float
    spread: float


@dataclass(frozen=True)
class Stage:
    """A database each for the ledger and for the updates that no entry explains."""

    database: str
    ledger_url: str
    bare_url: str
    tenant_id: int = 1

    def url(self, way: str) -> str:
        return self.ledger_url if way == "ledger" else self.bare_url


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=1.5, help="of each round")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    arguments.add_argument("--databases", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    chosen = arguments.parse_args()
    found = []
    for stage in stages(chosen.databases):
        for budgets in (1, BUDGETS):
            for clients in chosen.clients:
                found.append(measure(stage, budgets, clients, chosen.seconds, chosen.rounds))
                _tell(found[-1])
        _check_books(stage)
    if chosen.databases != ["sqlite", "postgres"]:
        return
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ledger.json").write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    draw(found, RESULTS / "ledger.png")


def stages(databases: list[str]) -> Iterator[Stage]:
    """Each database in turn, as durable as in production."""
    if "sqlite" in databases:
        with tempfile.TemporaryDirectory() as folder:
            files = [f"sqlite:///{folder}/{name}.db" for name in ("ledger", "bare")]
            yield _prepared(Stage("sqlite", files[0], files[1]))
    if "postgres" in databases:
        with own_postgres(durable=True) as server, ExitStack() as stack:
            urls = [stack.enter_context(new_database(server.get_uri(), name)) for name in ("ledger", "bare")]
            yield _prepared(Stage("postgres", urls[0], urls[1]))


def measure(stage: Stage, budgets: int, clients: int, seconds: float, rounds: int) -> Measurement:
    """The three ways in turn, so that a busy moment of the machine hits all of them."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            rates[way].append(_round(stage, way, budgets, clients, seconds))
    ledger, bare, driver = (statistics.median(rates[way]) for way in WAYS)
    spread = (max(rates["ledger"]) - min(rates["ledger"])) / ledger
    return Measurement(
        stage.database,
        budgets,
        clients,
        round(ledger, 1),
        round(bare, 1),
        round(driver, 1),
        round(ledger / bare, 3),
        round(ledger / driver, 3),
        round(spread, 3),
    )


def _round(stage: Stage, way: str, budgets: int, clients: int, seconds: float) -> float:
    """Units a second, all clients together."""
    start, counts = FORK.Barrier(clients), FORK.Queue()
    processes = [
        FORK.Process(target=_client, args=(stage, way, budgets, seconds, seed, start, counts))
        for seed in range(clients)
    ]
    for process in processes:
        process.start()
    taken: int = sum(counts.get(timeout=seconds + 60) for _ in processes)
    for process in processes:
        process.join()
    return taken / seconds


def _client(
    stage: Stage, way: str, budgets: int, seconds: float, seed: int, start: Barrier, counts: "Queue[int]"
) -> None:
    chance = random.Random(seed)
    with _taker(stage, way) as take:
        for _ in range(WARM_UP):
            take(chance.randint(1, budgets))
        start.wait()
        taken, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            take(chance.randint(1, budgets))
            taken += 1
    counts.put(taken)


@contextmanager
def _taker(stage: Stage, way: str) -> Iterator[Callable[[int], None]]:
    """A function that takes one unit from a budget, in one of the three ways."""
    database = open_database(stage.url(way), pool_size=1)
    ledger = Ledger(database, CHAIN_KEY)
    statement = text(GUARDED.format(":budget"))
    raw = database.engine.raw_connection()

    def take_ledger(budget: int) -> None:
        ledger.reserve(stage.tenant_id, budget, 1)

    def take_bare(budget: int) -> None:
        with database.stepping() as connection:
            _must_be_one(connection.execute(statement, {"budget": budget}).rowcount)

    if isinstance(raw.driver_connection, psycopg.Connection):
        raw.driver_connection.autocommit = True
    cursor = raw.cursor()
    driver_statement = GUARDED.format("?" if stage.database == "sqlite" else "%s")

    def take_driver(budget: int) -> None:
        cursor.execute(driver_statement, (budget,))
        _must_be_one(cursor.rowcount)

    yield {"ledger": take_ledger, "bare": take_bare, "driver": take_driver}[way]
    cursor.close()
    raw.close()
    database.close()


def _must_be_one(count: int) -> None:
    if count != 1:
        raise RuntimeError(f"the guarded UPDATE changed {count} rows")


def _prepared(stage: Stage) -> Stage:
    """Each database with one tenant and its budgets; ids count from 1."""
    for url in (stage.ledger_url, stage.bare_url):
        database = open_database(url)
        migrations.upgrade(database)
        with database.writing() as connection:
            tenant_id = queries.add_tenant(connection, "lender", utc_now())
            made = [
                directory.add_ensemble(connection, tenant_id, f"ensemble {n}", "1", utc_now()) for n in range(BUDGETS)
            ]
        for ensemble_id in made:
            Ledger(database, CHAIN_KEY).set_limit(tenant_id, ensemble_id, LIMIT)
        database.close()
    return stage


def _check_books(stage: Stage) -> None:
    database = open_database(stage.ledger_url)
    contradictions = check_ledger(database, CHAIN_KEY)
    database.close()
    if contradictions:
        raise RuntimeError(contradictions[0])


def _tell(one: Measurement) -> None:
    print(  # noqa: T201
        f"{one.database:9} {one.budgets:4} budgets {one.clients:3} clients: ledger {one.ledger:7.0f}/s, "
        f"bare {one.bare:7.0f}/s, driver {one.driver:7.0f}/s; ledger/bare {one.ratio:.2f} (spread {one.spread:.0%})",
        flush=True,
    )


def draw(found: list[Measurement], path: Path) -> None:
    """Bars for each case, the ledger beside the bare UPDATE."""
    figure, axes = plt.subplots(figsize=(12, 4.5), layout="constrained")
    positions = range(len(found))
    for offset, way in enumerate(WAYS):
        axes.bar([p + (offset - 1) * 0.27 for p in positions], [getattr(one, way) for one in found], 0.27, label=way)
    for position, one in zip(positions, found, strict=True):
        axes.annotate(f"{one.ratio:.2f}", (position - 0.27, one.ledger), ha="center", va="bottom", fontsize=8)
    labels = [f"{one.database}\n{one.budgets} budgets\n{one.clients} clients" for one in found]
    axes.set(
        ylabel="units a second", title="Reservations beside a bare guarded UPDATE (number: ledger / bare)", yscale="log"
    )
    axes.set_xticks(list(positions), labels, fontsize=7)
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
