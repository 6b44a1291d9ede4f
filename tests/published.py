"""Model versions as a training publishes them, without the training."""

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import update

from app.artifacts import ArtifactStore
from app.db.engine import Database
from app.db.tables import ModelRow, utc_now
from app.ensembles import directory
from app.registry import queries
from app.registry.queries import NewVersion
from app.train import jobs
from models.ensemble.local import train_local_ensemble
from models.model import RecourseModel
from models.storage.artifact import save_model
from tests.fakes.lending import Lending
from tests.models.tiny import TINY, random_model

MEMBERS = ("knn", "forest")


@dataclass(frozen=True, eq=False)
class Saved:
    """A sealed folder and what is in it."""

    folder: Path
    digest: str
    model: RecourseModel


def save_two(lending: Lending, folder: Path) -> tuple[Saved, Saved]:
    """Two models of one lender with the same two black boxes: the trained one, and one that answers otherwise."""
    task = lending.task
    ensemble = train_local_ensemble(task.encoder, task.training.records, task.training.labels, "quick", MEMBERS)
    found = []
    for name, model in (("first", lending.model), ("second", random_model(task.encoder, TINY, seed=9))):
        found.append(Saved(folder / name, save_model(model, folder / name, ensemble), model))
    return found[0], found[1]


def publish(
    database: Database, store: ArtifactStore, tenant_id: int, name: str, saved: Saved, ensemble_id: int | None = None
) -> UUID:
    """The id of a new version, which is active; its ensemble is the one saved with it, or a registered one."""
    location = store.put_folder(saved.folder, f"models/{saved.digest}")
    schema, job_id, now = saved.model.encoder.schema, uuid4(), utc_now()
    with database.writing() as connection:
        if ensemble_id is None:
            row = directory.find_ensemble(connection, tenant_id, name)
            ensemble_id = row.id if row is not None else directory.add_ensemble(connection, tenant_id, name, "1", now)
        jobs.add_job(connection, tenant_id, job_id, name, {}, now)
        version = NewVersion(
            job_id, location, saved.digest, ensemble_id, "1", schema.to_json(), list(schema.classes), {}, []
        )
        return queries.publish(connection, tenant_id, name, version, True, now)


def activate(database: Database, tenant_id: int, name: str, version_id: UUID) -> None:
    statement = update(ModelRow).where(ModelRow.tenant_id == tenant_id, ModelRow.name == name)
    with database.writing() as connection:
        connection.execute(statement.values(active_version_id=version_id))
