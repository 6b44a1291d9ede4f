"""The ensemble of a job, and the queries that the job may put to it.

The ensemble is a registered one, or one that the job trains, member by member: what was trained before a crash is not
trained again. Either is asked through the ledger.

The queries are reserved once, kept alive while the job trains, and taken over after a crash. The id of the first
reservation is in the job's row before it is made, so that whatever was dispatched is found again. A reservation that
was closed in between, by a lease that ran out, is followed by one of what it had left: all of them together never
dispatch more than the job may.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread
from uuid import UUID, uuid4

import numpy as np
import structlog
from numpy.typing import NDArray

from app.auth.keyring import open_keyring
from app.db.engine import Database
from app.db.ledger_tables import State
from app.db.tables import AnyRow, utc_now
from app.ensembles import directory
from app.ensembles.bought import AnswerOwner
from app.ensembles.directory import EnsembleDirectory, check_alike
from app.ensembles.meter import EnsembleMeter
from app.ensembles.metered import MeteredEnsemble
from app.errors import ConflictError, NotFoundError, ReservationError
from app.ledger import queries
from app.ledger.balance import Reservation, following
from app.ledger.ledger import Ledger
from app.train.request import CHECK_SHARE, Plan, TrainRequest
from models.data.schema import Schema, override_table
from models.datasets.dataset import Splits
from models.ensemble.local import EnsembleProgress, LocalEnsemble, train_local_ensemble
from models.ensemble.recipes import MEMBER_NAMES, SHORTLISTS
from models.errors import ArtifactError, QueryLimitError, RecourseError, SchemaError
from models.evaluation.labels import LabelFit, draw_balanced, fit_labels
from worker.context import JobStore, TrainingContext
from worker.held_job import HeldJob
from worker.progress import Progress


@dataclass(frozen=True, eq=False)
class BlackBoxes:
    """An ensemble, whose answers it gives, and the way to it; `trained` if this job made it, else `directory`."""

    owner: AnswerOwner
    meter: EnsembleMeter
    trained: LocalEnsemble | None
    directory: EnsembleDirectory | None = None

    def close(self) -> None:
        """Close the connections of a remote ensemble."""
        if self.directory is not None:
            self.directory.close()


def find_registered(context: TrainingContext, name: str) -> AnyRow:
    """The row of a remote ensemble."""
    with context.database.reading() as connection:
        row = directory.find_ensemble(connection, context.held.tenant_id, name)
    if row is None or row.kind != "remote":
        raise NotFoundError(f"there is no registered ensemble '{name}'")
    return row


def registered_schema(name: str, schema: Schema, label: str | None, request: TrainRequest) -> Schema:
    """What the ensemble takes; the request may only narrow what an applicant can change."""
    protected = {feature.name for feature in schema.features if feature.protected}
    for feature, changes in override_table(request.overrides).items():
        if feature in protected and changes.get("protected") is False:
            raise SchemaError(f"Feature '{feature}' is protected by the schema of ensemble '{name}'; it stays so.")
        if changes.get("nullable") is True:
            fact = f"Whether '{feature}' may be missing is for the schema of ensemble '{name}' to say"
            raise SchemaError(f"{fact}; register that again, or leave 'nullable' out.")
    narrowed = replace(schema, label=label or schema.label).with_overrides(request.overrides)
    check_alike(name, schema, narrowed)
    return narrowed


def ensure_local(context: TrainingContext, model_name: str, request: TrainRequest, classes: tuple[str, ...]) -> int:
    """The id of the ensemble that the job is going to train, with a budget; it is made before the members are."""
    held = context.held
    ensemble_id = held.write(
        lambda connection: directory.ensure_local(
            connection, held.tenant_id, model_name, held.id, list(request.members), list(classes), utc_now()
        )
    )
    if ensemble_id is None:
        raise ConflictError(f"'{model_name}' is a registered ensemble; train against it, or name the model differently")
    ensure_budget(context.database, context.ledger, held.tenant_id, ensemble_id, context.settings.default_budget)
    return ensemble_id


def open_registered(context: TrainingContext, row: AnyRow) -> BlackBoxes:
    registry = EnsembleDirectory(
        context.settings, context.database, context.ledger, open_keyring(context.settings, context.database)
    )
    return BlackBoxes(AnswerOwner(row.tenant_id, row.id, row.version), registry.remote_of(row), None, registry)


def train_local(context: TrainingContext, ensemble_id: int, request: TrainRequest, splits: Splits) -> BlackBoxes:
    trained = train_members(splits, request, context.files, context.progress)
    owner = AnswerOwner(context.held.tenant_id, ensemble_id, trained.version)
    meter = EnsembleMeter.local(trained.ensemble, context.database, context.ledger, owner)
    return BlackBoxes(owner, meter, trained.ensemble)


@dataclass(frozen=True, eq=False)
class TrainedEnsemble:
    """The ensemble, and a version that names exactly its members."""

    ensemble: LocalEnsemble
    version: str


def train_members(splits: Splits, request: TrainRequest, store: JobStore, progress: Progress) -> TrainedEnsemble:
    """All members of the request, in the paper's order. Each is read back from its file, also when it is new: the bits
    of the model must not depend on whether there was a crash."""
    names = [name for name in MEMBER_NAMES if name in request.members]
    units = [SHORTLISTS[request.mode][name].units for name in names]
    members, digests = [], []
    for position, name in enumerate(names):
        found = store.member(name)
        if found is None:
            _train_one(splits, request, name, store, progress, sum(units[:position]), sum(units))
            found = store.member(name)
        if found is None:
            raise ArtifactError(f"The member '{name}' cannot be read back from the artifact store.")
        members.append(found[0].members[0])
        digests.append(found[1])
    ensemble = LocalEnsemble(splits.encoder, tuple(members), splits.encoder.schema.classes)
    return TrainedEnsemble(ensemble, hashlib.sha256(" ".join(digests).encode()).hexdigest()[:32])


def _train_one(
    splits: Splits, request: TrainRequest, name: str, store: JobStore, progress: Progress, before: int, total: int
) -> None:
    def report(at: EnsembleProgress) -> None:
        progress.ensemble(replace(at, done=before + at.done, total=total))

    encoder, rows = splits.encoder, splits.training
    made = train_local_ensemble(encoder, rows.records, rows.labels, request.mode, (name,), request.seed, report)
    store.keep_member(made)


log = structlog.get_logger()


def ensure_budget(database: Database, ledger: Ledger, tenant_id: int, ensemble_id: int, limit: int) -> None:
    """An ensemble that the service trained itself has a budget from the start."""
    with database.reading() as connection:
        known = queries.find_budget(connection, tenant_id, ensemble_id) is not None
    if not known:
        ledger.set_limit(tenant_id, ensemble_id, limit)


def reserve(held: HeldJob, ledger: Ledger, ensemble_id: int, amount: int) -> Reservation | None:
    """The job's reservation, new or taken over; None if there is nothing left to reserve."""
    known: UUID | None = held.read().reservation_id
    if known is None:
        known = uuid4()
        held.save_reservation(known)
    while (row := _find(held, known)) is not None:
        if row.state == State.OPEN:
            try:
                taken = ledger.take_over(held.tenant_id, known)
            except ReservationError:
                continue  # It expired just now.
            held.save_reservation(known)
            return taken
        amount, known = min(amount, row.amount - row.dispatched), following(known)
    if amount < 1:
        return None
    made = ledger.reserve(held.tenant_id, ensemble_id, amount, known)
    # Only now, because the row of one that was not made tells nothing of what is left; and not without the job.
    held.save_reservation(known)
    return made


def _find(held: HeldJob, reservation_id: UUID) -> AnyRow | None:
    with held.database.reading() as connection:
        return queries.find_reservation(connection, held.tenant_id, reservation_id)


def reserve_plan(held: HeldJob, ledger: Ledger, ensemble_id: int, plan: Plan) -> tuple[Reservation | None, Plan]:
    """The plan's queries; without those of the comparison with the oracle where the budget has no room for them."""
    try:
        reservation = reserve(held, ledger, ensemble_id, plan.total)
    except QueryLimitError as error:
        if not plan.measure.oracle_records:
            raise
        plan = plan.without_oracle(str(error))
        reservation = reserve(held, ledger, ensemble_id, plan.total)
    if reservation is not None and plan.measure.oracle_records and reservation.amount < plan.total:
        plan = plan.without_oracle(f"{reservation.amount} queries are reserved, {plan.total} would be needed")
    if plan.skipped is not None:
        held.log(f"Not compared with the oracle: {plan.skipped}.")
    return reservation, plan


def dispatched_before(held: HeldJob, reservation: Reservation | None) -> int:
    """Queries that earlier processes of this job dispatched from its reservation."""
    if reservation is None:
        return 0
    row = _find(held, reservation.id)
    return 0 if row is None else int(row.dispatched)


def compare_with_labels(
    context: TrainingContext, ensemble: str, plan: Plan, splits: Splits, asked: MeteredEnsemble, seed: int
) -> tuple[dict[str, object], Plan]:
    """Figures of each member beside held-out labels, and what is left to learn from; what else to know is logged.

    What was bought before a crash is free. SchemaError where the order of the classes is clearly another.
    """
    if plan.unlabelled is None:
        try:
            found, plan = _fit_labels(plan, splits, asked, seed)
        except QueryLimitError as error:
            plan = replace(plan, unlabelled=str(error))
    if plan.unlabelled is not None:
        context.held.log(f"Not compared with the labels: {plan.unlabelled}.")
        return {"skipped": plan.unlabelled}, plan
    if (fault := found.fault(ensemble)) is not None:
        raise SchemaError(fault)
    for sentence in found.notices():
        context.held.log(sentence)
    return found.to_json(), plan


def _fit_labels(plan: Plan, splits: Splits, asked: MeteredEnsemble, seed: int) -> tuple[LabelFit, Plan]:
    """A doubt is settled with queries to learn from, one in CHECK_SHARE at most."""
    records = np.concatenate([splits.validation.records, splits.test.records])
    labels = np.concatenate([splits.validation.labels, splits.test.labels])
    shares, count = np.bincount(labels) / len(labels), plan.measure.labelled
    names, classes = asked.member_names, splits.encoder.schema.classes

    def fit(rows: NDArray[np.intp]) -> LabelFit:
        return fit_labels(names, classes, asked.predict_proba(records[rows]), labels[rows], shares, seed)

    found, more = fit(draw_balanced(labels, count, seed)), min(count, plan.queries // CHECK_SHARE)
    if not found.doubtful:
        return found, plan
    return fit(draw_balanced(labels, count + more, seed)), replace(plan, queries=plan.queries - more)


@contextmanager
def kept_alive(ledger: Ledger, present: Callable[[], Sequence[Reservation]], seconds: float) -> Iterator[None]:
    """Renew the present reservations every so often: a long phase without a query must not let them expire."""
    ended = Event()

    def renew() -> None:
        while not ended.wait(seconds):
            for reservation in present():
                try:
                    ledger.renew(reservation)
                except RecourseError as error:
                    log.warning("reservation not renewed", reservation=str(reservation), reason=str(error))

    thread = Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
