"""kill -9 of trainers and of what they train, at random moments: one version, the same bits, every query in the ledger.

RECOURSE_KILLS says how often; `python -m benchmarks.kill_trainer` does it 20 times over several jobs.
"""

import os
import random
import signal
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import func, select

from app.db.engine import Database
from app.db.ledger_tables import ReservationRow
from app.db.tables import OPERATOR, ModelVersion
from app.ensembles import bindings, service
from app.ledger.audit import check_ledger
from tests.app.conftest import Customer
from tests.patience import BOUND, wait_until
from tests.servers.worker import Site, changed, make_site
from tests.worker.lender import lending, reachable, register

KILLS = int(os.environ.get("RECOURSE_KILLS", "2"))
QUERIES = 12


def trainings(job_id: UUID) -> list[int]:
    """The processes that train the job."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"worker.job\0" + str(job_id).encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


class Fire:
    """When to kill next: soon after a process began, or a moment after the job got further than at the last kill."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.aim(None)

    def aim(self, checkpoint: str | None) -> None:
        self._checkpoint, self._early = checkpoint, self._chance.random() < 0.3
        self._delay = self._chance.uniform(0.0, 5.0 if self._early else 1.5)
        self._since: float | None = None

    def due(self, job_id: UUID, checkpoint: str | None) -> bool:
        if not (self._early or checkpoint != self._checkpoint) or not trainings(job_id):
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= self._delay


def kill_something(trainers: list["subprocess.Popen[bytes]"], job_id: UUID, chance: random.Random) -> None:
    """The training, or the trainer that watches over it, which then takes its training along."""
    if chance.random() < 0.7:
        for pid in trainings(job_id):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    else:
        chance.choice(trainers).kill()


def finish_under_fire(site: Site, job_id: UUID, kills: int, chance: random.Random) -> int:
    """Two trainers race for the job, and are started again when they die; how many times something was killed."""
    done, fire, end = 0, Fire(chance), time.monotonic() + BOUND
    with ExitStack() as stack:
        trainers = [stack.enter_context(site.trainer()) for _ in range(2)]
        while (job := site.job(job_id)).state in ("queued", "running"):
            assert time.monotonic() < end, f"still {job.state} after {done} kills"
            if done < kills and fire.due(job_id, job.checkpoint):
                kill_something(trainers, job_id, chance)
                done += 1
                fire.aim(job.checkpoint)
            for position, trainer in enumerate(trainers):
                if trainer.poll() is not None:
                    trainers[position] = stack.enter_context(site.trainer())
            time.sleep(0.05)
    return done


def dispatched(site: Site, tenant_id: int) -> int:
    mine = select(func.coalesce(func.sum(ReservationRow.dispatched), 0)).where(ReservationRow.tenant_id == tenant_id)
    with site.database.reading() as connection:
        return int(connection.execute(mine).scalar_one())


def bind(site: Site, url: str) -> int:
    """The operator's row of an endpoint that leaves the job no query more than it reserves."""
    with site.database.writing() as connection:
        service.bind_endpoint(connection, "fire", url, [site.customer.tenant_id])
        (bound,) = bindings.list_bound(connection)
    site.ledger.set_limit(OPERATOR, bound.ensemble_id, QUERIES)
    return int(bound.ensemble_id)


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_one_version_of_the_same_bits_whatever_is_killed(
    tmp_path: Path, database: Database, database_url: str, customer: Customer
) -> None:
    with lending() as lender:
        changes = reachable(lender) | {"job_lease_seconds": 4, "job_attempts": 50}
        site = make_site(tmp_path, database, database_url, customer, **changes)
        calm_id, fire_id = (register(site, lender, name) for name in ("calm", "fire"))
        request = changed(site.request, queries=QUERIES)
        calm = site.submit(changed(request, ensemble="calm"), "first")
        site.train_all()
        assert site.job(calm).state == "done", site.job(calm).error
        limited = bind(site, f"{lender.url}/v2/models/fire")
        job_id = site.submit(changed(request, ensemble="fire"), "second")
        killed = finish_under_fire(site, job_id, KILLS, random.Random(7))
    assert killed >= 1
    job, version, undisturbed = site.job(job_id), site.version(job_id), site.version(calm)
    assert (job.state, job.error) == ("done", None)
    assert version is not None and undisturbed is not None
    assert version.digest == undisturbed.digest, "the same bits"
    assert version.metrics["verified"] == undisturbed.metrics["verified"]
    with database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(ModelVersion)).scalar_one() == 2
    wait_until(lambda: site.ledger.balance(customer.tenant_id, fire_id).reserved == 0, 30)
    used = site.ledger.balance(customer.tenant_id, fire_id).used
    assert site.ledger.balance(customer.tenant_id, calm_id).used == lender.seen["calm"] > 0
    assert lender.seen["calm"] <= lender.seen["fire"] <= used <= QUERIES
    assert used - lender.seen["fire"] <= killed, "no more than a call that was charged and then not made"
    assert used + lender.seen["calm"] == dispatched(site, customer.tenant_id)
    wait_until(lambda: site.ledger.balance(OPERATOR, limited).reserved == 0, 30)
    at_endpoint = site.ledger.balance(OPERATOR, limited).used
    assert used <= at_endpoint == dispatched(site, OPERATOR) <= QUERIES, "its own limit counts no fewer"
    assert check_ledger(database, site.chain_key) == []
