"""One training job from its data to its published version; what was done before a crash is taken up again.

    run_training    the data set, the ensemble, its queries, the model, its figures, the version
    read_splits      the data set of the job, split and encoded
    publish         files first, then one transaction that makes the version and ends the job, or does neither

The steps of the method itself are those of the command line: models/training/pipeline.py.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from app.artifacts import ArtifactStore, check_digest
from app.datasets import service
from app.datasets.reader import read_table
from app.db.tables import AnyRow, utc_now
from app.ensembles import directory
from app.ensembles.bought import AnswerOwner
from app.ensembles.metered import MeteredEnsemble
from app.errors import NotFoundError
from app.ledger.balance import Reservation
from app.registry import queries
from app.registry.queries import NewVersion
from app.train import jobs
from app.train.request import Plan, TrainRequest, make_plan
from models.data.columns import inspect_columns
from models.data.policy import Policy
from models.data.policy_checks import check_policy
from models.data.records import one_text
from models.data.schema import Schema, override_table
from models.datasets.dataset import Dataset, Splits, split_dataset, split_frame
from models.ensemble.local import LocalEnsemble
from models.errors import ConfigError, DataError
from models.evaluation.measure import measure
from models.model import RecourseModel
from models.storage.artifact import save_model
from models.training.checkpoint import Checkpoints
from models.training.pipeline import check_top_features, member_accuracy, with_overrides
from models.training.train import train
from worker.context import TrainingContext
from worker.ensemble import (
    BlackBoxes,
    compare_with_labels,
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
        if product.model.policy.features or product.model.policy.rules:
            queries.keep_policy(connection, held.tenant_id, name, product.model.policy)
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


def run_training(context: TrainingContext) -> UUID:
    """The id of the published version."""
    job = context.held.read()
    request = TrainRequest.of_job(job.request, job.model_name)
    plan = make_plan(request, context.settings.device)
    context.progress.show("data")
    registered = None if request.ensemble is None else find_registered(context, request.ensemble)
    splits = read_splits(context, request, registered)
    check_top_features(plan.config, splits)
    if request.policy is not None:
        check_policy(splits.encoder.schema, Policy.from_json(request.policy))
    _tell_protected(context, splits)
    classes = splits.encoder.schema.classes
    ensemble_id = registered.id if registered else ensure_local(context, job.model_name, request, classes)
    reservation, plan = reserve_plan(context.held, context.ledger, ensemble_id, plan)
    before = dispatched_before(context.held, reservation)
    asked: MeteredEnsemble | None = None

    def present() -> Sequence[Reservation]:
        return ([] if reservation is None else [reservation]) if asked is None else asked.reservations

    with kept_alive(context.ledger, present, context.settings.budget_lease_seconds / 4):
        boxes = (
            open_registered(context, registered) if registered else train_local(context, ensemble_id, request, splits)
        )
        with closing(boxes):
            # Not in a `with` of its own: whatever interrupts the job, the next process goes on with its reservation.
            left = 0 if reservation is None else reservation.amount - before
            asked = boxes.meter.open(left, reservation=reservation)
            context.progress.queries = lambda: before + asked.charged
            labels = None
            if registered is not None:
                labels, plan = compare_with_labels(context, registered.name, plan, splits, asked, request.seed)
            product = _make(context, request, plan, splits, boxes, asked)
            if labels is not None:
                product.metrics["labels"] = labels
            context.progress.show("publish")
            version_id = publish(context.held, context.store, job.model_name, request.activate, product)
    for last in present():
        context.ledger.settle(last)
    return version_id


def read_splits(context: TrainingContext, request: TrainRequest, registered: AnyRow | None) -> Splits:
    """The data set, split and encoded: by the schema that the ensemble was registered with, else by its own."""
    with context.database.reading() as connection:
        row = service.find_row(connection, context.held.tenant_id, request.dataset_id)
    if row is None:
        raise NotFoundError(f"there is no data set {request.dataset_id}")
    path = context.store.fetch_file(row.location)
    check_digest(path, row.digest, row.name)
    frame = read_table(path, service.table_limits(context.settings)).frame
    label = request.label or row.label
    if registered is not None:
        schema = registered_schema(registered.name, Schema.from_json(registered.schema), label, request)
        return split_frame(schema, frame, request.seed, request.encoding)
    if label is None:
        raise ConfigError(f"data set {request.dataset_id} was uploaded without a label; name the label column.")
    kinds = _told_kinds(row.schema, label)
    # What the answer to the upload listed stays; it was asked about this label, or about none.
    said = (dict.fromkeys(kinds, ()) if label == row.label else {}) | override_table(request.overrides)
    seen = inspect_columns(frame, label if label in frame.columns else None, said)
    if seen.codes:
        raise DataError(one_text(list(seen.codes.values())))
    for sentence in seen.left_out.values():
        context.held.log(sentence)
    kept = {name: kind for name, kind in kinds.items() if name not in seen.left_out}
    described = Dataset(row.name, frame.drop(columns=list(seen.left_out)), label, {"features": kept})
    described = with_overrides(described, label, request.overrides)
    return split_dataset(described, request.seed, request.encoding, for_advice=True)


def _told_kinds(described: Mapping[str, Any], label: str) -> dict[str, dict[str, object]]:
    """The overrides that keep each column what the answer to the upload said it is."""
    kinds = {feature["name"]: {"kind": feature["kind"]} for feature in described.get("features", ())}
    return {name: kind for name, kind in kinds.items() if name != label}


def _tell_protected(context: TrainingContext, splits: Splits) -> None:
    names = [feature.name for feature in splits.encoder.schema.features if feature.protected]
    if names:
        context.held.log(f"Protected, so never suggested as something to change: {', '.join(names)}.")


def _make(
    context: TrainingContext,
    request: TrainRequest,
    plan: Plan,
    splits: Splits,
    boxes: BlackBoxes,
    asked: MeteredEnsemble,
) -> Product:
    """Train, then measure."""
    model = _train(context, request, plan, splits, asked)
    context.progress.show("measure")
    metrics = measure(model, splits, asked, plan.measure, request.seed)
    if plan.skipped is not None:
        metrics["beside_oracle"] = {"skipped": plan.skipped}
    metrics |= {"queries": context.progress.queries(), "rows": len(splits.training)}
    if boxes.trained is not None:
        metrics["members"] = member_accuracy(boxes.trained, splits.test)
    return Product(model, boxes.trained, boxes.owner, metrics)


def _train(
    context: TrainingContext, request: TrainRequest, plan: Plan, splits: Splits, asked: MeteredEnsemble
) -> RecourseModel:
    context.progress.units = Units.of(plan.config, len(splits.training))
    seconds = context.settings.checkpoint_seconds
    checkpoints = Checkpoints(context.files.keep, context.files.last(), seconds, context.should_stop)
    model = train(splits, asked, plan.config, plan.queries, request.seed, context.progress.report, checkpoints)
    return model if request.policy is None else replace(model, policy=Policy.from_json(request.policy))
