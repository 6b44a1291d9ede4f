"""One job from its data to its published version; everything that was done before a crash is taken up again.

The end of a training: files first, then one transaction that makes the version and ends the job, or does neither.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from app.artifacts import ArtifactStore, check_digest
from app.datasets import service
from app.datasets.reader import TableLimits, read_table
from app.db.tables import AnyRow, utc_now
from app.ensembles import directory
from app.ensembles.bought import AnswerOwner
from app.ensembles.metered import MeteredEnsemble
from app.errors import NotFoundError
from app.registry import queries
from app.registry.queries import NewVersion
from app.train import jobs
from app.train.request import Plan, TrainRequest, make_plan
from models.data.schema import Schema
from models.datasets.dataset import Dataset, Splits, split_dataset, split_frame
from models.ensemble.local import LocalEnsemble
from models.errors import ConfigError
from models.evaluation.measure import measure
from models.model import RecourseModel
from models.storage.artifact import save_model
from models.training.checkpoint import Checkpoints
from models.training.pipeline import check_top_features, fit_model, member_accuracy, with_overrides
from worker.context import Bench
from worker.ensemble import (
    BlackBoxes,
    dispatched_before,
    ensure_local,
    find_registered,
    kept_alive,
    open_registered,
    registered_schema,
    reserve_plan,
    train_local,
)
from worker.held_job import HeldJob
from worker.progress import Units


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
        version_id = queries.publish(connection, held.tenant_id, name, version, activate, now)
        jobs.finish(connection, held.claim, version_id, now)
        if product.ensemble is not None and queries.active(connection, held.tenant_id, name) == version_id:
            _serve_ensemble(connection, product, version)
        payload = {"state": "done", "model_version_id": str(version_id)}
        jobs.add_event(connection, held.tenant_id, held.id, "state", payload, now)
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
        frontier=[{"price": at.cost_weight, "cost": at.cost, "agreement": at.agreement} for at in model.frontier],
    )


def _serve_ensemble(connection: Connection, product: Product, version: NewVersion) -> None:
    """The ensemble that was trained with the active version is the one that is asked."""
    assert product.ensemble is not None
    members = list(product.ensemble.member_names)
    owner = product.owner
    directory.replace_members(
        connection, owner.tenant_id, owner.ensemble_id, owner.version, members, version.classes, version.schema
    )


def run_training(bench: Bench) -> UUID:
    """The id of the published version."""
    job = bench.held.read()
    request = TrainRequest.of_job(job.request, job.model_name)
    plan = make_plan(request, bench.settings.device)
    bench.progress.show("data")
    registered = None if request.ensemble is None else find_registered(bench, request.ensemble)
    study = read_study(bench, request, registered)
    check_top_features(plan.config, study)
    _tell_protected(bench, study)
    classes = study.encoder.schema.classes
    ensemble_id = registered.id if registered else ensure_local(bench, job.model_name, request, classes)
    reservation, plan = reserve_plan(bench.held, bench.ledger, ensemble_id, plan)
    before = dispatched_before(bench.held, reservation)
    with kept_alive(bench.ledger, reservation, bench.settings.budget_lease_seconds / 4):
        boxes = open_registered(bench, registered) if registered else train_local(bench, ensemble_id, request, study)
        with boxes.meter:
            # Not in a `with` of its own: whatever interrupts the job, the next process goes on with its reservation.
            asked = boxes.meter.open(0, reservation=reservation)
            bench.progress.queries = lambda: before + asked.charged
            product = _make(bench, request, plan, study, boxes, asked)
            bench.progress.show("publish")
            version_id = publish(bench.held, bench.store, job.model_name, request.activate, product)
    if reservation is not None:
        bench.ledger.settle(reservation)
    return version_id


def read_study(bench: Bench, request: TrainRequest, registered: AnyRow | None) -> Splits:
    """The data set, split and encoded: by the schema that the ensemble was registered with, else by its own."""
    with bench.database.reading() as connection:
        row = service.find_row(connection, bench.held.tenant_id, request.dataset_id)
    if row is None:
        raise NotFoundError(f"there is no data set {request.dataset_id}")
    settings = bench.settings
    limits = TableLimits(settings.max_dataset_rows, settings.max_dataset_columns, settings.max_upload_bytes)
    path = bench.store.fetch_file(row.location)
    check_digest(path, row.digest, row.name)
    frame = read_table(path, limits).frame
    label = request.label or row.label
    if registered is not None:
        schema = registered_schema(registered.name, Schema.from_json(registered.schema), label, request)
        return split_frame(schema, frame, request.seed)
    if label is None:
        raise ConfigError(f"data set {request.dataset_id} was uploaded without a label; name the label column.")
    described = Dataset(row.name, frame, label, _told_kinds(row.schema, label))
    return split_dataset(with_overrides(described, label, request.overrides), request.seed)


def _told_kinds(described: Mapping[str, Any], label: str) -> dict[str, object]:
    """The overrides that keep each column what the answer to the upload said it is."""
    kinds = {feature["name"]: {"kind": feature["kind"]} for feature in described.get("features", ())}
    return {"features": {name: kind for name, kind in kinds.items() if name != label}}


def _tell_protected(bench: Bench, study: Splits) -> None:
    names = [feature.name for feature in study.encoder.schema.features if feature.protected]
    if names:
        bench.held.log(f"Protected, so never suggested as something to change: {', '.join(names)}.")


def _make(
    bench: Bench, request: TrainRequest, plan: Plan, study: Splits, boxes: BlackBoxes, asked: MeteredEnsemble
) -> Product:
    """Train, then measure."""
    model = _train(bench, request, plan, study, asked)
    bench.progress.show("measure")
    metrics = measure(model, study, asked, plan.measure, request.seed)
    if plan.skipped is not None:
        metrics["beside_oracle"] = {"skipped": plan.skipped}
    metrics |= {"queries": bench.progress.queries(), "rows": len(study.training)}
    if boxes.trained is not None:
        metrics["members"] = member_accuracy(boxes.trained, study.test)
    return Product(model, boxes.trained, boxes.owner, metrics)


def _train(bench: Bench, request: TrainRequest, plan: Plan, study: Splits, asked: MeteredEnsemble) -> RecourseModel:
    bench.progress.units = Units.of(plan.config, len(study.training))
    seconds = bench.settings.checkpoint_seconds
    checkpoints = Checkpoints(bench.files.keep, bench.files.last(), seconds, bench.should_stop)
    return fit_model(study, asked, plan.config, plan.queries, request.seed, bench.progress.report, checkpoints)
