"""What a training works with, opened once for its process."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from app.artifacts import ArtifactStore, open_store
from app.db.engine import Database
from app.ledger.ledger import Ledger
from app.settings import Settings
from worker.held_job import PATIENCE, HeldJob
from worker.job_store import JobStore
from worker.progress import Progress


@dataclass(frozen=True)
class Bench:
    """The parts; `should_stop` is asked between steps."""

    settings: Settings
    database: Database
    ledger: Ledger
    store: ArtifactStore
    held: HeldJob
    files: JobStore
    progress: Progress
    should_stop: Callable[[], bool]


def open_bench(settings: Settings, database: Database, held: HeldJob, should_stop: Callable[[], bool]) -> Bench:
    store = open_store(settings)
    ledger = Ledger(database, lease=timedelta(seconds=settings.budget_lease_seconds), patience=PATIENCE)
    files, progress = JobStore(store, held), Progress(held, should_stop)
    return Bench(settings, database, ledger, store, held, files, progress, should_stop)
