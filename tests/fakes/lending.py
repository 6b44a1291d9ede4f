"""A small lender for the tests: a trained model of the loans, the records that it refused, and its scorecards."""

from dataclasses import dataclass
from functools import partial
from uuid import UUID, uuid4

import numpy as np

from app.db.engine import Database
from app.ensembles.bought import AnswerOwner
from app.ensembles.meter import EnsembleMeter
from app.errors import NotFoundError
from app.explain.contract import ExplainRequest, ExplainTask
from app.explain.engine.versions import LoadedVersion
from app.ledger.ledger import Ledger
from models.data.records import Value, from_records
from models.datasets.loans import loans
from models.model import RecourseModel
from models.training.train import train
from tests.app.conftest import Customer
from tests.models.tiny import TINY, Scorecards, Task, make_task

APPROVED, REFUSED = "approved", "refused"


@dataclass(frozen=True, eq=False)
class Lending:
    """The task, the model, and refused applicants as JSON has them."""

    task: Task
    model: RecourseModel
    refused: list[dict[str, Value]]

    def scorecards(self) -> Scorecards:
        return Scorecards(self.task.encoder)


def make_lending() -> Lending:
    """A few seconds: once a session."""
    task = make_task(loans(300, seed=3))
    model = train(task, Scorecards(task.encoder), TINY, seed=5)
    records = np.concatenate([task.test.records, task.validation.records])
    labels = np.concatenate([task.test.labels, task.validation.labels])
    refused = records[labels == model.classes.index(REFUSED)]
    return Lending(task, model, from_records(task.encoder.schema, refused))


class OneLender:
    """One version of one tenant, loaded from memory; it counts the loads."""

    def __init__(self, lending: Lending, database: Database, ledger: Ledger, customer: Customer) -> None:
        self.cards = lending.scorecards()
        self.version_id = uuid4()
        self.customer = customer
        self.loads = 0
        owner = AnswerOwner(customer.tenant_id, customer.ensemble_id, "1")
        self._model = lending.model
        self._open_meter = partial(EnsembleMeter.local, self.cards, database, ledger, owner)

    def load(self, tenant_id: int, version_id: UUID) -> LoadedVersion:
        self.loads += 1
        if (tenant_id, version_id) != (self.customer.tenant_id, self.version_id):
            raise NotFoundError(f"there is no model version {version_id}")
        return LoadedVersion(self._model, self._open_meter)

    def task(self, records: list[dict[str, Value]], max_queries: int = 0, **options: object) -> ExplainTask:
        """Few candidates, so that a test is quick; `options` are further fields of the request."""
        robustness = {"min_agreement": 0.6, "max_queries": max_queries}
        asked = {"model": "loans", "records": records, "target": APPROVED, "candidates": 6, "robustness": robustness}
        return ExplainTask(ExplainRequest.model_validate(asked | options), self.customer.tenant_id, self.version_id)
