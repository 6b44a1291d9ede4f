"""POST /train: the job's row is committed, then the bell is rung."""

from uuid import uuid4

from sqlalchemy import Connection

from app.db import datasets, ensembles, job_events, jobs
from app.db.engine import Database
from app.db.types import AnyRow
from app.errors import ConflictError, NotFoundError, OverloadedError
from app.ledger.ledger import utc_now
from app.training.protocol import TrainingQueue
from app.training.request import TrainRequest
from models.errors import ConfigError, DataError


def submit(
    database: Database,
    queue: TrainingQueue,
    tenant_id: int,
    model_name: str,
    request: TrainRequest,
    max_queued: int,
) -> AnyRow:
    """The row of the new job. What can be refused without the data is refused here."""
    job_id, now = uuid4(), utc_now()
    with database.writing() as connection:
        _check(connection, tenant_id, model_name, request, max_queued)
        jobs.add(connection, tenant_id, job_id, model_name, request.to_json(), now)
        job_events.add(connection, tenant_id, job_id, "state", {"state": "queued"}, now)
        row = jobs.find(connection, tenant_id, job_id)
    assert row is not None
    queue.ring(job_id)
    return row


def _check(connection: Connection, tenant_id: int, model_name: str, request: TrainRequest, max_queued: int) -> None:
    dataset = datasets.find(connection, tenant_id, request.dataset_id)
    if dataset is None:
        raise NotFoundError(f"there is no data set {request.dataset_id}")
    if request.label is None and dataset.label is None:
        raise ConfigError(f"data set {request.dataset_id} was uploaded without a label; name the label column.")
    _check_label(dataset, request.label)
    _check_ensemble(connection, tenant_id, model_name, request.ensemble)
    waiting = jobs.count_unfinished(connection, tenant_id)
    if waiting >= max_queued:
        raise OverloadedError(f"{waiting} of {max_queued} training jobs are unfinished: wait for one, or cancel it")


def _check_label(dataset: AnyRow, label: str | None) -> None:
    """A label that is no column is refused at once; what else may be wrong with it, the training says."""
    features = [feature["name"] for feature in dataset.schema.get("features", ())]
    columns = [*features, *([] if dataset.label is None else [dataset.label])]
    if label is not None and features and label not in columns:
        raise DataError(f"There is no label column '{label}'; the columns are {', '.join(columns)}.")


def _check_ensemble(connection: Connection, tenant_id: int, model_name: str, ensemble: str | None) -> None:
    """A registered ensemble must be there; a trained one is kept under the model's name, which must be free for it."""
    found = ensembles.find(connection, tenant_id, ensemble or model_name)
    if ensemble is not None and (found is None or found.kind != "remote"):
        raise NotFoundError(f"there is no registered ensemble '{ensemble}'")
    if ensemble is None and found is not None and found.kind != "local":
        raise ConflictError(f"'{model_name}' is a registered ensemble; train against it, or name the model otherwise")
