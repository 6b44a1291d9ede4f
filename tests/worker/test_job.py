"""The process of a training, with something else in its place: errors, tries, progress, and what its owner is told."""

import errno
from collections.abc import Callable
from dataclasses import replace
from threading import Event

import pytest

from app.errors import LostLeaseError
from app.train import service
from app.train.jobs import Claim
from models.errors import ArtifactError, DataError, EnsembleError, StoppedError
from tests.app.conftest import Customer
from tests.fakes.service import Bell
from tests.models.tiny import TINY
from tests.servers.worker import LEASE, Site, hold
from worker import job
from worker.context import TrainingContext
from worker.ensemble import reserve
from worker.held_job import HeldJob
from worker.job import without_folders
from worker.process import ENDED, FULL, STOPPED
from worker.progress import Progress, Units


def run_job(site: Site, monkeypatch: pytest.MonkeyPatch, training: Callable[[TrainingContext], None]) -> int:
    """The process of a training, with something else in the place of the training."""
    monkeypatch.setattr(job, "run_training", training)
    monkeypatch.setattr(job, "PAUSE_SECONDS", 0.0)
    return job._run(site.settings, site.database, hold(site), Event())


def fails_with(error: Exception) -> Callable[[TrainingContext], None]:
    def training(context: TrainingContext) -> None:
        raise error

    return training


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
class TestErrors:
    """What goes wrong in a training, and what becomes of the job."""

    def test_the_users_fault_fails_it_at_once(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        job_id = site.submit()
        assert run_job(site, monkeypatch, fails_with(DataError("Column 'age' holds dates."))) == ENDED
        job = site.job(job_id)
        assert (job.state, job.error) == ("failed", "Column 'age' holds dates.")
        assert site.events(job_id)[-1].payload == {"state": "failed", "error": "Column 'age' holds dates."}

    @pytest.mark.parametrize(
        ("error", "sentence"),
        [
            (RuntimeError("secret inside"), "The training failed for a reason that is not in the data"),
            (EnsembleError("only 1 of 3 members answered"), "only 1 of 3 members answered"),
        ],
    )
    def test_what_nobody_foresaw_is_tried_twice_more(
        self, site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
    ) -> None:
        job_id = site.submit()
        states = []
        for _ in range(3):
            assert run_job(site, monkeypatch, fails_with(error)) == ENDED
            states.append(site.job(job_id).state)
        assert states == ["queued", "queued", "failed"]
        assert site.job(job_id).error.startswith(sentence) and "secret" not in site.job(job_id).error
        assert [event.kind for event in site.events(job_id)].count("log") == 2

    def test_a_full_disk_is_nobody_s_fault(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        job_id = site.submit()
        full = OSError(errno.ENOSPC, "No space left on device")
        told = ArtifactError("The model cannot be written.")
        told.__cause__ = full
        for error in (full, told, RuntimeError("IoError(Os { code: 28, kind: StorageFull })")):
            assert run_job(site, monkeypatch, fails_with(error)) == FULL
            assert site.job(job_id).state == "running", "the trainer puts it back"
            HeldJob(site.database, Claim(job_id, site.job(job_id).fence), site.customer.tenant_id).release(
                counted=False
            )
            assert (site.job(job_id).state, site.job(job_id).attempts) == ("queued", 0)

    def test_told_to_stop(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        job_id = site.submit()
        assert run_job(site, monkeypatch, fails_with(StoppedError("told"))) == STOPPED
        assert site.job(job_id).state == "running", "the trainer puts it back"

    def test_a_lost_job_is_left_alone(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        job_id = site.submit()

        def lose(context: TrainingContext) -> None:
            hold(site, 2 * LEASE)
            context.progress.show("surrogate", 1, 2)

        with pytest.raises(LostLeaseError):
            run_job(site, monkeypatch, lose)
        job = site.job(job_id)
        assert (job.state, job.fence, job.progress) == ("running", 2, None)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_progress_is_thin_and_knows_what_is_left(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id, now = site.submit(), [0.0]
    monkeypatch.setattr("worker.progress.time.monotonic", lambda: now[0])
    progress = Progress(hold(site), lambda: False)
    progress.units = Units.of(replace(TINY, distill=replace(TINY.distill, rounds=0)), rows=100)
    for step in range(1, 21):
        now[0] += 0.1
        progress.report("surrogate", step, 30, 1.0)
    written = site.job(job_id).progress
    assert 15 < written["step"] <= 20, "at most twice a second"
    left = (30 - written["step"]) + 2.0 * 20
    assert written["eta_seconds"] == pytest.approx(left * 0.1, rel=0.15)
    assert len([event for event in site.events(job_id) if event.kind == "progress"]) == 2
    progress.report("generator", 1, 20, float("nan"))
    assert "loss" not in site.job(job_id).progress, "JSON has no NaN"


def test_the_reconciler_rings_and_gives_up(site: Site, customer: Customer) -> None:
    bell = Bell()
    waiting, worn = site.submit(), site.submit()
    site.ledger.set_limit(customer.tenant_id, customer.ensemble_id, 100)
    held = hold(site, -2 * LEASE)
    assert reserve(held, site.ledger, customer.ensemble_id, 60) is not None
    service.reconcile(site.database, site.ledger, bell, attempts=1)
    (ended,) = {waiting, worn} - set(bell.rung)
    job = site.job(held.id)
    assert ended == held.id and job.state == "failed" and "begun 1 times" in job.error
    assert site.ledger.balance(customer.tenant_id, customer.ensemble_id).reserved == 0, "given back at once"


def test_a_job_s_error_does_not_tell_where_files_are() -> None:
    said = "Nothing was written to '/srv/recourse/var/artifacts/models/x': No space left on device."
    assert without_folders(said) == "Nothing was written to 'x': No space left on device."
    for plain in ("Column 'a/b' is a date.", "'datasets/1/abc.csv' is not in the artifact store."):
        assert without_folders(plain) == plain
