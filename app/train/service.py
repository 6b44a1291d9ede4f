"""Training jobs from outside of their worker: submitted, listed, followed live, cancelled, and never forgotten.

`reconcile` is what makes the queue's losses harmless: it finds jobs that wait in the table and wakes a trainer again.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

from anyio import sleep
from sqlalchemy import Connection

from app.artifacts import ArtifactStore
from app.auth.queries import lock_tenant
from app.concurrency import StillAuthorised, ThreadShare
from app.datasets import service
from app.db.engine import Database
from app.db.ledger_tables import State
from app.db.paging import found
from app.db.tables import AnyRow, JobState, utc_now
from app.ensembles import directory
from app.ensembles.bindings import admit
from app.errors import ConflictError, NotFoundError, OverloadedError, ReservationError
from app.ledger import queries
from app.ledger.balance import following
from app.ledger.ledger import Ledger
from app.settings import Settings
from app.train import jobs
from app.train.queue import TrainingQueue
from app.train.request import TrainRequest, make_plan
from models.data.schema import override_table
from models.errors import ConfigError, DataError, QueryLimitError, SchemaError


def submit(connection: Connection, tenant_id: int, job_id: UUID, request: TrainRequest, max_queued: int) -> AnyRow:
    """The row of the new job. What can be refused without the data is refused here, and before by `check_budget`.

    The caller wakes a trainer when it has committed: a trainer that is woken finds the row.
    """
    now = utc_now()
    _check(connection, tenant_id, request, max_queued)
    jobs.add_job(connection, tenant_id, job_id, request.model, request.document(), now)
    jobs.add_event(connection, tenant_id, job_id, "state", {"state": "queued"}, now)
    return found(jobs.find_job(connection, tenant_id, job_id), f"job {job_id}")


def _check(connection: Connection, tenant_id: int, request: TrainRequest, max_queued: int) -> None:
    dataset = service.find_row(connection, tenant_id, request.dataset_id)
    if dataset is None:
        raise NotFoundError(f"there is no data set {request.dataset_id}")
    if request.label is None and dataset.label is None:
        raise ConfigError(f"data set {request.dataset_id} was uploaded without a label; name the label column.")
    _check_label(dataset, request.label)
    _check_features(dataset, request)
    _check_classes(dataset, request.label, _check_ensemble(connection, tenant_id, request.model, request.ensemble))
    # Requests that come at once are counted one after the other.
    lock_tenant(connection, tenant_id)
    waiting = jobs.count_unfinished(connection, tenant_id)
    if waiting >= max_queued:
        raise OverloadedError(f"{waiting} of {max_queued} training jobs are unfinished: wait for one, or cancel it")


def _check_label(dataset: AnyRow, label: str | None) -> None:
    """A label that is no column is refused at once; what else may be wrong with it, the training says."""
    features = [feature["name"] for feature in dataset.schema.get("features", ())]
    columns = [*features, *([] if dataset.label is None else [dataset.label])]
    if label is not None and features and label not in columns:
        raise DataError(f"There is no label column '{label}'; the columns are {', '.join(columns)}.")


def _check_features(dataset: AnyRow, request: TrainRequest) -> None:
    """More features than there are, and overrides of none of them; where the upload did not describe the columns, the
    training says so."""
    label = request.label or dataset.label
    features = [feature["name"] for feature in dataset.schema.get("features", ()) if feature["name"] != label]
    if not features:
        return
    if request.top_features is not None and request.top_features > len(features):
        raise ConfigError(f"top_features is {request.top_features}, but there are only {len(features)} features.")
    for name in override_table(request.overrides):
        if name not in features:
            raise SchemaError(
                f"The overrides name '{name}', which is no feature; the features are {', '.join(features)}."
            )


def check_budget(database: Database, ledger: Ledger, settings: Settings, tenant_id: int, request: TrainRequest) -> None:
    """A training that the budget has no room for as things are is refused at once; the trainer's reservation decides.

    The comparison with the oracle is left out where there is no room for it.
    """
    amount, registered = make_plan(request, settings.device).without_oracle("").total, request.ensemble is not None
    row = database.read(directory.find_ensemble, tenant_id, request.ensemble or request.model)
    fits = not registered if row is None else (row.kind == "remote") is registered
    if not amount or not fits:
        return  # Nothing is asked, or `_check` says what is wrong with the ensemble.
    if row is not None and (registered or database.read(queries.find_budget, tenant_id, row.id) is not None):
        ledger.check_room(tenant_id, row.id, amount)
        for limit in database.read(admit, tenant_id, row.endpoints) if registered else ():
            with limit.told():
                ledger.check_room(limit.tenant_id, limit.ensemble_id, amount)
    elif amount > settings.default_budget:
        fact = f"the training may ask {amount} queries, a new ensemble has a budget of {settings.default_budget}"
        raise QueryLimitError(f"{fact}: allow it fewer with `queries`, or have RECOURSE_DEFAULT_BUDGET raised")


def _check_ensemble(connection: Connection, tenant_id: int, model_name: str, ensemble: str | None) -> AnyRow | None:
    """The registered ensemble, which must be there; a trained one is kept under the model's name, free for it."""
    found = directory.find_ensemble(connection, tenant_id, ensemble or model_name)
    if ensemble is not None and (found is None or found.kind != "remote"):
        raise NotFoundError(f"there is no registered ensemble '{ensemble}'")
    if ensemble is None and found is not None and found.kind != "local":
        raise ConflictError(f"'{model_name}' is a registered ensemble; train against it, or name the model differently")
    return None if ensemble is None else found


def _check_classes(dataset: AnyRow, label: str | None, ensemble: AnyRow | None) -> None:
    """The upload counted the classes of its own label; those of another one, the training looks at."""
    if ensemble is None or not dataset.class_counts or label not in (None, dataset.label):
        return
    if set(dataset.class_counts) != set(ensemble.classes):
        ours, theirs = ", ".join(dataset.class_counts), ", ".join(ensemble.classes)
        raise ConflictError(
            f"the labels of data set '{dataset.name}' are {ours}, the classes of ensemble '{ensemble.name}' {theirs}: "
            "register it again, as a new version, with those labels, in the order of its probabilities"
        )


def cancel(database: Database, ledger: Ledger, store: ArtifactStore, tenant_id: int, job_id: UUID) -> AnyRow:
    """A queued job is cancelled at once; a running one within seconds, by its worker. The row as it is now.

    One that was begun and put back has queries reserved, and files: both are given back here.
    """
    now = utc_now()
    with database.writing() as connection:
        row = jobs.request_cancel(connection, tenant_id, job_id, now)
        if row is None:
            found = jobs.find_job(connection, tenant_id, job_id)
            if found is None:
                raise NotFoundError(f"there is no job {job_id}")
            raise ConflictError(f"job {job_id} is {found.state} already, so it cannot be cancelled")
        if row.state == JobState.CANCELLED.value:
            jobs.add_event(connection, tenant_id, job_id, "state", {"state": row.state}, now)
    if row.state == JobState.CANCELLED.value:
        clean_up(database, ledger, store, row)
    return row


def clean_up(database: Database, ledger: Ledger, store: ArtifactStore, job: AnyRow) -> None:
    """Give back at once what an ended job did not use, and drop its checkpoints."""
    settle_reservation(database, ledger, job)
    store.remove(jobs.job_folder(job.id))


SETTLED_AFTER = timedelta(minutes=1)
"""Whoever ended a job cleans up after it within this time, if it lives."""


def clean_up_ended(database: Database, ledger: Ledger, store: ArtifactStore) -> None:
    """The same for all jobs whose processes died before they could do it."""
    before = utc_now() - SETTLED_AFTER
    folders = [UUID(name) for name in store.names(jobs.FOLDER) if _is_id(name)]
    left = database.read(jobs.ended_with_reservation, before) + database.read(jobs.ended_before, before, folders)
    for job in left:
        clean_up(database, ledger, store, job)


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def reconcile(database: Database, ledger: Ledger, queue: TrainingQueue, attempts: int) -> list[UUID]:
    """Wake a trainer for every job that waits, whether that was done before or not; end those without hope.

    Called once a minute by each process of the API: any number of them may do so at the same time.
    """
    end_hopeless(database, ledger, attempts)
    with database.reading() as connection:
        waiting = jobs.waiting(connection, utc_now())
    for job_id in waiting:
        queue.wake(job_id)
    return waiting


def end_hopeless(database: Database, ledger: Ledger, attempts: int) -> None:
    """End jobs without a living worker that were cancelled, or begun too often without getting any further."""
    now = utc_now()
    error = (
        f"The training was begun {attempts} times from the same place and its process died each time, which points to "
        "too little memory; train on fewer rows or fewer members, or give the worker more memory."
    )
    with database.writing() as connection:
        ended = jobs.give_up(connection, now, attempts, error)
        for row in ended:
            payload = {"state": row.state, "error": row.error}
            jobs.add_event(connection, row.tenant_id, row.id, "state", payload, now)
    for row in ended:
        settle_reservation(database, ledger, row)


def settle_reservation(database: Database, ledger: Ledger, job: AnyRow) -> None:
    """Close what an ended job left open, so that what it did not use comes back now and not when the lease is over."""
    if job.reservation_id is None:
        return
    known = job.reservation_id
    with database.reading() as connection:
        while (
            row := queries.find_reservation(connection, job.tenant_id, known)
        ) is not None and row.state != State.OPEN:
            known = following(known)
    if row is None:
        return
    try:
        taken = ledger.take_over(job.tenant_id, known)
        ledger.settle(taken)
        ledger.settle_beside(taken)
    except ReservationError:
        return  # Somebody else closed it in between, which is as good.


POLL_SECONDS = 0.5
FINISHED = frozenset({JobState.DONE.value, JobState.FAILED.value, JobState.CANCELLED.value})


def show_job(database: Database, tenant_id: int, job_id: UUID) -> AnyRow:
    return found(database.read(jobs.find_job, tenant_id, job_id), f"job {job_id}: see GET /jobs")


async def follow(
    database: Database, threads: ThreadShare, job_id: UUID, after: int, authorised: StillAuthorised
) -> AsyncIterator[AnyRow]:
    """The events behind `after`, then new ones as they come, until all are told or the caller may listen no more."""

    tenant_id = threads.tenant_id

    def read() -> tuple[list[AnyRow], bool]:
        # One state of the database: whoever sees the job ended also sees its last event.
        with database.reading() as connection:
            row = jobs.find_job(connection, tenant_id, job_id)
            return jobs.events_after(connection, tenant_id, job_id, after), row is None or row.state in FINISHED

    while await authorised.holds():
        events, ended = await threads.run(read)
        for event in events:
            after = event.id
            yield event
        if ended and not events:
            return
        if not events:
            await sleep(POLL_SECONDS)
