"""Trouble around a training that is not its own: a process that is stopped, a disk that is full."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.db.engine import Database
from tests.app.conftest import Customer
from tests.patience import wait_until
from tests.servers.worker import changed, make_site
from tests.worker.test_kill import trainings


@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
def test_a_training_that_shows_no_life_goes_on_in_another_process(
    tmp_path: Path, database: Database, database_url: str, customer: Customer
) -> None:
    """Its trainer lives, and used to renew the lease for ever."""
    site = make_site(tmp_path, database, database_url, customer, job_silence_seconds=3.0, job_attempts=50)
    long = changed(site.request, members=("knn",), effort=10.0, queries=None)
    with site.trainer():
        job_id = site.submit(long)
        wait_until(lambda: site.job(job_id).checkpoint is not None)
        (stopped,) = trainings(job_id)
        os.kill(stopped, signal.SIGSTOP)
        wait_until(lambda: site.job(job_id).fence == 2)
        assert not Path(f"/proc/{stopped}").exists()
        lines = [event.payload["message"] for event in site.events(job_id) if event.kind == "log"]
        assert "The training's process was ended after 3 s without a sign of life." in lines
        before = site.job(job_id).checkpoint
        wait_until(lambda: site.job(job_id).checkpoint != before)
        site.cancel(job_id)
        wait_until(lambda: site.job(job_id).state == "cancelled")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
def test_a_training_waits_for_space(
    tmp_path: Path, small_disk: Path, database: Database, database_url: str, customer: Customer
) -> None:
    site = make_site(
        tmp_path, database, database_url, customer, artifacts_url=str(small_disk), min_free_bytes=0, job_attempts=1
    )
    with site.trainer():
        job_id = site.submit(changed(site.request, members=("knn",)))
        wait_until(lambda: any("No space was left" in str(event.payload) for event in site.events(job_id)))
        wait_until(lambda: site.job(job_id).state == "queued")
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        wait_until(lambda: site.job(job_id).state not in ("queued", "running"))
    assert (site.job(job_id).state, site.job(job_id).error) == ("done", None)
