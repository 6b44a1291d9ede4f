"""Embedded mode: the queue spawns a trainer, which trains what it is rung for, stops when told, and goes on later."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.artifacts import open_store
from app.ensembles import directory
from app.ledger.audit import check_ledger
from app.train.queue import SpawnedQueue
from app.train.request import make_plan
from models.config import MeasureConfig
from models.storage.artifact import load_ensemble_of, load_model
from tests.patience import wait_until
from tests.servers.worker import Site, changed

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@contextmanager
def spawned(site: Site) -> Iterator[SpawnedQueue]:
    queue = SpawnedQueue(site.settings)
    try:
        yield queue
    finally:
        queue.close()


def balance_of(site: Site, name: str) -> tuple[int, int]:
    """(used, reserved) of the ensemble of that name."""
    with site.database.reading() as connection:
        row = directory.find_ensemble(connection, site.customer.tenant_id, name)
    assert row is not None
    balance = site.ledger.balance(site.customer.tenant_id, row.id)
    return balance.used, balance.reserved


def test_a_job_becomes_a_version(site: Site) -> None:
    asked = changed(site.request, queries=None, oracle_records=2)
    with spawned(site) as queue:
        job_id = site.submit(asked, queue=queue)
        wait_until(lambda: site.job(job_id).state not in ("queued", "running"))
        wait_until(lambda: not (site.settings.var_dir / "artifacts" / "jobs" / str(job_id)).exists(), 30)
    job, version = site.job(job_id), site.version(job_id)
    assert (job.state, job.error) == ("done", None)
    assert version is not None and (version.number, version.id) == (1, job.model_version_id)
    store = open_store(site.settings)
    folder = store.fetch_folder(version.location)
    assert load_model(folder).classes == tuple(version.classes)
    assert load_ensemble_of(folder).member_names == ("knn", "forest")
    assert version.metrics["members"].keys() == {"knn", "forest"}
    assert version.metrics["verified"]["records"] > 1 and version.metrics["expected"]["records"] > 1
    beside = version.metrics["beside_oracle"]
    assert (beside["records"], set(beside["oracle"])) == (2, {"validity", "unanimity", "cost"})
    assert len(version.frontier) > 3
    used = version.metrics["queries"]
    assert 0 < beside["queries"] <= 2 * MeasureConfig().queries_each < used <= make_plan(asked, "cpu").total
    assert balance_of(site, "loans") == (used, 0)
    assert check_ledger(site.database, site.chain_key) == []
    events = site.events(job_id)
    phases = list(dict.fromkeys(event.payload["phase"] for event in events if event.kind == "progress"))
    assert phases[:3] == ["data", "ensemble", "surrogate"] and phases[-2:] == ["measure", "publish"]
    assert [event.payload["state"] for event in events if event.kind == "state"] == ["queued", "running", "done"]
    assert any("loss" in event.payload for event in events)
    told = [event.payload["message"] for event in events if event.kind == "log"]
    assert told == ["Protected, so never suggested as something to change: age, sex, dependents."]


def test_a_training_is_put_aside_taken_up_and_cancelled(site: Site) -> None:
    long = changed(site.request, members=("knn",), effort=10.0, queries=None)
    with spawned(site) as queue:
        job_id = site.submit(long, queue=queue)
        wait_until(lambda: site.job(job_id).checkpoint is not None)
    job = site.job(job_id)
    assert (job.state, job.fence, job.lease_until) == ("queued", 1, None), "put back when the service stops"
    assert balance_of(site, "loans")[1] > 0, "its queries stay reserved"
    with spawned(site) as queue:
        wait_until(lambda: site.job(job_id).fence == 2 and site.job(job_id).checkpoint != job.checkpoint)
        site.cancel(job_id)
        asked = time.monotonic()
        wait_until(lambda: site.job(job_id).state == "cancelled")
        assert time.monotonic() - asked < site.settings.job_lease_seconds, "at a renewal, not when the lease is over"
        wait_until(lambda: balance_of(site, "loans")[1] == 0)
        kill_trainer(queue)
    assert site.version(job_id) is None
    assert check_ledger(site.database, site.chain_key) == []


def kill_trainer(queue: SpawnedQueue) -> None:
    """It is started again."""
    pid = queue.pid
    assert pid is not None and queue.healthy()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: queue.pid not in (None, pid) and queue.healthy())
