"""/ensembles: the lender's models, and metered predictions of theirs."""

from datetime import datetime
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints

from app.api.budgets import BudgetBody
from app.api.datasets import LOANS_SCHEMA
from app.api.dependencies import (
    AdminCaller,
    Caller,
    ClientCaller,
    DatabaseDep,
    IdempotencyKey,
    KeyedRoute,
    MetricsDep,
    Page,
    PageQuery,
    ResourcesDep,
    replied,
)
from app.api.problems import WITH_BODY, problems
from app.ensembles import directory, service
from app.ensembles.directory import read_endpoint
from app.ensembles.endpoint import Layout
from app.ensembles.service import Registration
from app.explain.asking import Prediction
from app.fields import TEXT_PATTERN, Body, DeadlineMs, Document, Name, NameInPath
from app.idempotency import Keep, StoredReply
from models.data.schema import Schema

Text = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=TEXT_PATTERN)]
RECORD: dict[str, Any] = {"income": 32000, "housing": "rent"}
ENDPOINT: dict[str, Any] = {
    "url": "https://scores.lender.example",
    "model": "loan-scores",
    "members": ["knn", "forest"],
    "outputs": ["knn", "forest"],
    "layout": "columns",
    "seconds": 10.0,
}


class EndpointBody(Body):
    """A model that speaks the Open Inference Protocol v2, and answers for one member or for several."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=TEXT_PATTERN)] = Field(
        description="scheme://host:port/path, before /v2/models/...; the host must be on the operator's list."
    )
    model: Text = Field(description="The model's name at the endpoint.")
    members: list[Text] = Field(min_length=1, max_length=50)
    outputs: list[Text] = Field(default_factory=list, max_length=50, description="The output tensor of each member.")
    layout: Layout = Field(Layout.COLUMNS, description="One tensor a feature, or the record matrix as one tensor.")
    credential: SecretStr | None = Field(None, max_length=4000, description="Sent as a bearer token; never shown.")
    seconds: float = Field(10.0, gt=0, le=120)


class EnsembleBody(Body):
    """An ensemble to register. To register a name again replaces it; changed members need a new version."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "scores",
                    "version": "2026-01",
                    "schema": LOANS_SCHEMA,
                    "endpoints": [ENDPOINT | {"credential": "..."}],
                    "budget": {"limit": 100000, "period": "month"},
                }
            ]
        }
    )

    name: Name
    version: Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=TEXT_PATTERN)] = Field(
        description="Names the models behind the endpoints: answers bought under one version are not used for another."
    )
    schema_: Document = Field(alias="schema", description="The schema, as POST /datasets answers with.")
    endpoints: list[EndpointBody] = Field(min_length=1, max_length=50)
    budget: BudgetBody


class EnsembleAnswer(BaseModel):
    """An ensemble; credentials are never shown."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "scores",
                    "kind": "remote",
                    "version": "2026-01",
                    "members": ["knn", "forest"],
                    "classes": ["no", "yes"],
                    "schema": LOANS_SCHEMA,
                    "endpoints": [ENDPOINT],
                    "created_at": "2026-01-31T09:30:00Z",
                }
            ]
        },
    )

    name: str
    kind: Literal["local", "remote"]
    version: str
    members: list[str] | None
    classes: list[str] | None
    schema_: dict[str, Any] | None = Field(alias="schema")
    endpoints: list[dict[str, Any]] | None
    created_at: datetime


class PredictBody(Body):
    """Records to put to the ensemble: raw values by feature name; null where one is missing."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"records": [RECORD]}]})

    records: list[dict[str, Any]] = Field(min_length=1, max_length=100_000, fail_fast=True)
    deadline_ms: DeadlineMs = None


class PredictionAnswer(BaseModel):
    """What the ensemble says of one record; a record that cannot be read has only an error."""

    probabilities: dict[str, list[float] | None] = Field(
        description="One list a member, in the order of the classes; null for a member that did not answer."
    )
    error: str | None


class PredictAnswer(BaseModel):
    """The predictions, in the order of the records, and what they cost."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "ensemble": "scores",
                    "version": "2026-01",
                    "classes": ["no", "yes"],
                    "predictions": [{"probabilities": {"knn": [0.8, 0.2], "forest": [0.7, 0.3]}, "error": None}],
                    "charged": 1,
                    "reused": 0,
                }
            ]
        }
    )

    ensemble: str
    version: str
    classes: list[str]
    predictions: list[PredictionAnswer]
    charged: int = Field(description="Queries that were charged to the budget.")
    reused: int = Field(description="Records whose answer had been bought before.")


router = APIRouter(prefix="/ensembles", tags=["ensembles"], route_class=KeyedRoute)


@router.post(
    "",
    status_code=201,
    operation_id="register_ensemble",
    response_model=EnsembleAnswer,
    responses=problems(*WITH_BODY, 409),
)
async def register(body: EnsembleBody, caller: AdminCaller, resources: ResourcesDep, keyed: IdempotencyKey) -> Response:
    """Register models behind Open Inference Protocol v2 endpoints, with their query budget."""
    wanted = Registration(
        body.name,
        body.version,
        Schema.from_json(body.schema_),
        tuple(read_endpoint(endpoint.model_dump()) for endpoint in body.endpoints),
        body.budget.limit,
        body.budget.period,
        body.budget.restart,
    )
    parts = resources.database, resources.ledger, resources.ensembles

    async def work(keep: Keep) -> StoredReply:
        row = await to_thread.run_sync(service.register, *parts, caller.tenant_id, wanted)
        return StoredReply(201, EnsembleAnswer.model_validate(row).model_dump_json(by_alias=True))

    return replied(await resources.idempotent.run(caller.tenant_id, "/ensembles", keyed, work))


@router.get("", operation_id="list_ensembles", responses=problems())
def page(order: PageQuery, caller: Caller, database: DatabaseDep) -> Page[EnsembleAnswer]:
    """The ensembles, oldest first: registered ones, and those that were trained here."""
    return Page[EnsembleAnswer].of(database.read(directory.ensembles_page, caller.tenant_id, order))


@router.post(
    "/{name}/predict",
    operation_id="predict",
    response_model=PredictAnswer,
    responses=problems(*WITH_BODY, 404, 409, 429, 502, 504),
)
async def predict(
    name: NameInPath,
    body: PredictBody,
    caller: ClientCaller,
    resources: ResourcesDep,
    metrics: MetricsDep,
    keyed: IdempotencyKey,
) -> Response:
    """Put records to the ensemble. Each is one query, unless its answer was bought before."""

    async def work(keep: Keep) -> StoredReply:
        found = await resources.ask.predict(caller.tenant_id, name, body.records, body.deadline_ms)
        metrics.count_queries(found.answer.charged, found.answer.reused)
        return StoredReply(200, _shown(found).model_dump_json())

    keyed = None if keyed is None else keyed.on(name)
    return replied(await resources.idempotent.run(caller.tenant_id, "/predict", keyed, work))


def _shown(found: Prediction) -> PredictAnswer:
    answer = found.answer
    predictions = [
        PredictionAnswer(
            probabilities=dict(zip(answer.members, map(_as_list, record.probabilities), strict=False)),
            error=record.error,
        )
        for record in answer.records
    ]
    return PredictAnswer(
        ensemble=found.ensemble.name,
        version=found.ensemble.version,
        classes=list(answer.classes),
        predictions=predictions,
        charged=answer.charged,
        reused=answer.reused,
    )


def _as_list(votes: tuple[float, ...] | None) -> list[float] | None:
    return None if votes is None else list(votes)
