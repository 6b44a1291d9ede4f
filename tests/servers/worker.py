"""A small service without HTTP: a database, a store, a data set of loans, and trainers as real processes."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

from pydantic import SecretStr

from app.artifacts import open_store
from app.auth.keyring import open_keyring
from app.datasets import service as datasets_service
from app.datasets.service import NewDataset
from app.db.engine import Database
from app.db.tables import AnyRow, ModelVersion, owned, utc_now
from app.ledger.chain import ChainKey
from app.ledger.ledger import Ledger
from app.settings import Settings, environment_of
from app.train import jobs, service
from app.train.jobs import Claim
from app.train.queue import TrainingQueue
from app.train.request import TrainRequest
from models.datasets.loans import loans
from tests.app.conftest import Customer
from tests.fakes.service import Bell
from tests.patience import BOUND
from worker.held_job import HeldJob

ROWS = 120
LEASE = timedelta(seconds=30)


@dataclass(frozen=True, eq=False)
class Site:
    """One tenant's service."""

    settings: Settings
    database: Database
    customer: Customer
    request: TrainRequest

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.database, self.chain_key)

    @property
    def chain_key(self) -> ChainKey:
        return ChainKey(open_keyring(self.settings, self.database).ledger_secret)

    def submit(
        self, request: TrainRequest | None = None, model: str = "loans", queue: TrainingQueue | None = None
    ) -> UUID:
        bell = queue or Bell()
        wanted = changed(request or self.request, model=model)
        tenant_id, job_id = self.customer.tenant_id, uuid4()
        service.check_budget(self.database, self.ledger, self.settings, tenant_id, wanted)
        with self.database.writing() as connection:
            service.submit(connection, tenant_id, job_id, wanted, self.settings.max_queued_jobs)
        bell.wake(job_id)
        return job_id

    def cancel(self, job_id: UUID) -> None:
        service.cancel(self.database, self.ledger, open_store(self.settings), self.customer.tenant_id, job_id)

    def job(self, job_id: UUID) -> AnyRow:
        with self.database.reading() as connection:
            row = jobs.find_job(connection, self.customer.tenant_id, job_id)
        assert row is not None
        return row

    def version(self, job_id: UUID) -> AnyRow | None:
        with self.database.reading() as connection:
            table = ModelVersion.__table__
            mine = owned(table, self.customer.tenant_id).where(table.c.job_id == job_id)
            return connection.execute(mine).one_or_none()

    def events(self, job_id: UUID) -> list[AnyRow]:
        with self.database.reading() as connection:
            return jobs.events_after(connection, self.customer.tenant_id, job_id)

    @contextmanager
    def trainer(self, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A trainer, in a process of its own; killed at the end."""
        command = [sys.executable, "-m", "worker.trainer", *arguments]
        process = subprocess.Popen(command, env=os.environ | environment_of(self.settings), stdin=subprocess.PIPE)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    def train_all(self) -> None:
        """Until no job waits."""
        with self.trainer("--once") as trainer:
            assert trainer.wait(timeout=BOUND) == 0


def changed(request: TrainRequest, **changes: object) -> TrainRequest:
    """The same request but for some fields."""
    return request.model_copy(update=changes)


def make_site(folder: Path, database: Database, database_url: str, customer: Customer, **changes: object) -> Site:
    settings = Settings(
        var_dir=folder / "var",
        database_url=SecretStr(database_url),
        log_level="warning",
        checkpoint_seconds=0.3,
    ).model_copy(update=changes)
    frame = loans(ROWS, seed=3).frame
    path = folder / "loans.csv"
    frame.to_csv(path, index=False)
    location = open_store(settings).put_file(path, "datasets/loans.csv")
    dataset_id = uuid4()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    described = NewDataset("loans", location, digest, len(frame), loans(ROWS).label, {}, {})
    with database.writing() as connection:
        datasets_service.add_dataset(connection, customer.tenant_id, dataset_id, described, utc_now())
    request = TrainRequest(
        model="loans", dataset_id=dataset_id, members=("knn", "forest"), effort=0.02, queries=10, seed=1
    )
    return Site(settings, database, customer, request)


def hold(site: Site, late: timedelta = timedelta()) -> HeldJob:
    """Claim the job that waits, at a time when leases of before may be over."""
    now = utc_now() + late
    with site.database.writing() as connection:
        row = jobs.claim(connection, "test", now, now + LEASE)
    assert row is not None
    return HeldJob(site.database, Claim(row.id, row.fence), row.tenant_id)
