"""The end of a training: files first, then one transaction that makes the version and ends the job, or does neither."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlalchemy import Connection

from app.artifacts import ArtifactStore
from app.db import job_events, jobs, local_ensembles, model_versions
from app.db.answers import AnswerOwner
from app.db.model_versions import NewVersion
from app.ledger.ledger import utc_now
from models.artifact import save_model
from models.ensemble.local import LocalEnsemble
from models.model import RecourseModel
from worker.held_job import HeldJob


@dataclass(frozen=True, eq=False)
class Product:
    """What a training made; `ensemble` only where it was trained with the model."""

    model: RecourseModel
    ensemble: LocalEnsemble | None
    owner: AnswerOwner
    metrics: dict[str, object]


def publish(held: HeldJob, store: ArtifactStore, name: str, activate: bool, product: Product) -> UUID:
    """The id of the version. LostLeaseError: another trainer has the job, and this one leaves no trace but files."""
    with tempfile.TemporaryDirectory(prefix="recourse-") as scratch:
        folder = Path(scratch) / "model"
        digest = save_model(product.model, folder, product.ensemble)
        location = store.put_folder(folder, f"models/{held.tenant_id}/{digest}")
    version = _version(held.id, location, digest, product)

    def commit(connection: Connection) -> UUID:
        jobs.held(connection, held.claim)
        now = utc_now()
        version_id = model_versions.publish(connection, held.tenant_id, name, version, activate, now)
        jobs.finish(connection, held.claim, version_id, now)
        if product.ensemble is not None and model_versions.active(connection, held.tenant_id, name) == version_id:
            _serve_ensemble(connection, product, version)
        payload = {"state": "done", "model_version_id": str(version_id)}
        job_events.add(connection, held.tenant_id, held.id, "state", payload, now)
        return version_id

    return held.write(commit)


def _version(job_id: UUID, location: str, digest: str, product: Product) -> NewVersion:
    model = product.model
    return NewVersion(
        job_id=job_id,
        location=location,
        digest=digest,
        ensemble_id=product.owner.ensemble_id,
        ensemble_version=product.owner.version,
        schema=model.encoder.schema.to_json(),
        classes=list(model.classes),
        metrics=product.metrics,
        frontier=[{"price": at.price, "cost": at.cost, "agreement": at.agreement} for at in model.frontier],
    )


def _serve_ensemble(connection: Connection, product: Product, version: NewVersion) -> None:
    """The ensemble that was trained with the active version is the one that is asked."""
    assert product.ensemble is not None
    members = list(product.ensemble.member_names)
    owner = product.owner
    local_ensembles.replace_members(
        connection, owner.tenant_id, owner.ensemble_id, owner.version, members, version.classes, version.schema
    )
