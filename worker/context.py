"""What a training works with: its parts, opened once for its process, and its files in the artifact store.

The files are the job's last checkpoint and the members that were trained so far. They go when the job has ended.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from app.artifacts import ArtifactStore, open_store
from app.auth.keyring import open_keyring
from app.db.engine import Database
from app.ledger.chain import ChainKey
from app.ledger.ledger import Ledger
from app.settings import Settings
from app.train.jobs import job_folder
from models.ensemble.local import LocalEnsemble, load_ensemble, save_ensemble
from models.errors import ArtifactError
from models.storage.sealed import check_seal, write_sealed
from models.training.checkpoint import Snapshot, load_checkpoint, save_checkpoint
from worker.held_job import PATIENCE, HeldJob
from worker.progress import Progress

log = structlog.get_logger()


class JobStore:
    """The folder jobs/<id> of the store."""

    def __init__(self, store: ArtifactStore, held: HeldJob) -> None:
        self._store, self._held = store, held
        self._folder = job_folder(held.id)
        self._kept: str | None = held.read().checkpoint
        self._count = 0

    def keep(self, snapshot: Snapshot) -> None:
        """Replace the job's checkpoint; the one before goes when this one is in the job's row."""
        self._count += 1
        name = f"{self._folder}/{self._held.claim.fence}-{self._count}"
        self._store.seal_folder(name, partial(save_checkpoint, snapshot))
        self._held.save_checkpoint(name)
        before, self._kept = self._kept, name
        if before is not None:
            self._store.remove(before)

    def last(self) -> Snapshot | None:
        """The checkpoint to go on from; one that cannot be read is as good as none: it only saves time."""
        if self._kept is None:
            return None
        try:
            return load_checkpoint(self._store.fetch_folder(self._kept))
        except ArtifactError as error:
            log.warning("checkpoint not used", job=str(self._held.id), reason=str(error))
            return None

    def keep_member(self, member: LocalEnsemble) -> None:
        """An ensemble of one; whoever trains the same member of the same job gets the same bits."""
        name = f"{self._folder}/members/{member.member_names[0]}"
        # The same name may be there by now, from a trainer that lost the job while it fitted the same member.
        with suppress(ArtifactError):
            self._store.seal_folder(name, lambda place: write_sealed(place, partial(save_ensemble, member)))

    def member(self, name: str) -> tuple[LocalEnsemble, str] | None:
        """The member of that name and its content hash, if it was trained before."""
        try:
            folder = self._store.fetch_folder(f"{self._folder}/members/{name}")
            return load_ensemble(folder), check_seal(folder)
        except ArtifactError:
            return None


@dataclass(frozen=True)
class TrainingContext:
    """The parts; `should_stop` is asked between steps."""

    settings: Settings
    database: Database
    ledger: Ledger
    store: ArtifactStore
    held: HeldJob
    files: JobStore
    progress: Progress
    should_stop: Callable[[], bool]


def open_context(
    settings: Settings, database: Database, held: HeldJob, should_stop: Callable[[], bool]
) -> TrainingContext:
    store = open_store(settings)
    lease = timedelta(seconds=settings.budget_lease_seconds)
    chain_key = ChainKey(open_keyring(settings, database).ledger_secret)
    ledger = Ledger(database, chain_key, lease=lease, patience=PATIENCE)
    files, progress = JobStore(store, held), Progress(held, should_stop)
    return TrainingContext(settings, database, ledger, store, held, files, progress, should_stop)
