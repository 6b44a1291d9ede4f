"""POST /explain, KServe's form of it, and /explanations: the decision records, and whether what they promise holds."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.api.dependencies import (
    Caller,
    ClientCaller,
    DatabaseDep,
    IdempotencyKey,
    KeyedRoute,
    Page,
    PageQuery,
    ResourcesDep,
    replied,
    request_id_of,
)
from app.api.problems import WITH_BODY, problems
from app.concurrency import unless_gone
from app.explain import decisions
from app.explain.answer import ExplainAnswerBody, VoteAnswer
from app.explain.asking import Verification
from app.explain.contract import RECORD, ExplainOptions, ExplainRequest, Records
from app.fields import NAME_PATTERN, NameInPath
from app.idempotency import Keep, KeyedBody, StoredReply
from app.resources import Resources


class InstancesBody(ExplainOptions):
    """The same, as KServe's v1 protocol has it: the model is in the path, the records are instances."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"instances": [RECORD], "target": "approved"}]})

    instances: Records

    def named(self, model: str) -> ExplainRequest:
        """The request that it is. All of it is checked already."""
        shared = {name: getattr(self, name) for name in ExplainOptions.model_fields}
        return ExplainRequest.model_construct(model=model, records=self.instances, **shared)


router = APIRouter(tags=["explain"], route_class=KeyedRoute)
FAILURES = problems(*WITH_BODY, 404, 409, 429, 502, 504)


@router.post("/explain", operation_id="explain", response_model=ExplainAnswerBody, responses=FAILURES)
async def explain_records(
    body: ExplainRequest,
    caller: ClientCaller,
    resources: ResourcesDep,
    key: IdempotencyKey,
    http: Request,
) -> Response:
    """What could each applicant change, so that the lender's models, all of them, would accept?

    One bad record never fails its neighbours: it gets its own `error`. Each answer is kept as a decision record.
    """
    return await answer(http, resources, caller.tenant_id, key, body)


@router.post(
    "/v1/models/{name}:explain", operation_id="explain_kserve", response_model=ExplainAnswerBody, responses=FAILURES
)
async def explain_kserve(
    name: NameInPath,
    body: InstancesBody,
    caller: ClientCaller,
    resources: ResourcesDep,
    key: IdempotencyKey,
    http: Request,
) -> Response:
    """POST /explain as KServe's v1 protocol has it: `instances` instead of `records`, the model in the path."""
    return await answer(http, resources, caller.tenant_id, key, body.named(name))


async def answer(
    http: Request, resources: Resources, tenant_id: int, key: KeyedBody | None, request: ExplainRequest
) -> Response:
    """The answer, or the one that the same request got before under its key; dropped if the caller hangs up."""
    request_id = request_id_of(http)

    async def work(keep: Keep) -> StoredReply:
        def keep_reply(connection: Connection, reply: bytes) -> None:
            keep(connection, StoredReply(200, reply.decode()))

        reply = await resources.explain.explain(tenant_id, request_id, request, keep_reply)
        return StoredReply(200, reply.decode())

    # KServe's form names the model in the path, so the body alone does not say what was asked.
    keyed = None if key is None else key.on(request.model)
    return replied(await unless_gone(http, resources.idempotent.run(tenant_id, "/explain", keyed, work)))


SUMMARY: dict[str, Any] = {
    "id": "6a1f0f7c-5a38-4f0e-9a55-0b9f6c1e0a1f",
    "model": "loans",
    "version": 1,
    "target": "approved",
    "status": "robust",
    "queries": 6,
    "request_id": "5f0c2d7e9b1a4c55a0d3f5f5b8a7e6d1",
    "position": 0,
    "created_at": "2026-01-31T09:30:00Z",
}


class ExplanationSummary(BaseModel):
    """A decision record in a list."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [SUMMARY]})

    id: UUID
    model: str
    version: int
    target: str
    status: str
    queries: int = Field(description="Records that were put to the lender's models; what was paid is in the ledger.")
    request_id: str
    position: int = Field(description="The record's place in its request, from 0.")
    created_at: datetime


class DecisionAnswer(ExplanationSummary):
    """A decision record: all that is needed to repeat the search, and what was answered."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [
                {
                    **SUMMARY,
                    "model_version_id": "0b9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11",
                    "digest": "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
                    "record": {"income": 24000, "loan_amount": 15000},
                    "order": {"k": 1, "seed": 0, "robustness": {"min_agreement": 0.8, "max_queries": 10}},
                    "answer": {"status": "robust", "queries": 6, "counterfactuals": []},
                }
            ]
        },
    )

    model_version_id: UUID
    digest: str = Field(description="The content hash of the model that answered.")
    record: dict[str, Any] = Field(description="As it was sent.")
    order: dict[str, Any] = Field(description="Constraints, k, robustness, price, candidates and seed.")
    answer: dict[str, Any] = Field(description="As it was answered, see POST /explain.")


class VerificationAnswer(BaseModel):
    """Whether a recourse that was promised still holds."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "6a1f0f7c-5a38-4f0e-9a55-0b9f6c1e0a1f",
                    "holds": True,
                    "agreement": 1.0,
                    "lower_bound": 0.83,
                    "min_agreement": 0.8,
                    "votes": [{"model": "forest", "accepts": True}, {"model": "mlp", "accepts": True}],
                    "charged": 1,
                    "model": "loans",
                    "promised_version": 1,
                    "asked_version": 2,
                }
            ]
        }
    )

    id: UUID
    holds: bool = Field(description="Whether the agreement reaches what was asked for when it was promised.")
    agreement: float
    lower_bound: float = Field(description="Of the agreement, at 90%.")
    min_agreement: float
    votes: list[VoteAnswer]
    charged: int = Field(description="Queries; 0 where the same was asked before.")
    model: str
    promised_version: int
    asked_version: int = Field(description="The version that is active now, whose ensemble was asked.")


records_router = APIRouter(prefix="/explanations", tags=["explain"], route_class=KeyedRoute)

OfModel = Annotated[str | None, Query(pattern=NAME_PATTERN, max_length=100, description="Only this model's.")]
Which = Annotated[int, Query(ge=0, le=9, description="Which of the counterfactuals, from 0.")]
Deadline = Annotated[int | None, Query(ge=1, le=2**31, description="After this the request is dropped (504).")]


class StatusName(StrEnum):
    """How an explanation ended."""

    ROBUST = "robust"
    VALID = "valid"
    ALREADY_TARGET = "already_target"
    INFEASIBLE = "infeasible"
    ERROR = "error"


@records_router.get("", operation_id="list_explanations", responses=problems())
def page(
    order: PageQuery, caller: Caller, database: DatabaseDep, model: OfModel = None, status: StatusName | None = None
) -> Page[ExplanationSummary]:
    """The decision records, newest first."""
    return Page[ExplanationSummary].of(database.read(decisions.decisions_page, caller.tenant_id, model, status, order))


@records_router.get("/{explanation_id}", operation_id="show_explanation", responses=problems(404))
def show(explanation_id: UUID, caller: Caller, database: DatabaseDep) -> DecisionAnswer:
    """One decision record: input, constraints, seed, model version, votes, queries."""
    return DecisionAnswer.model_validate(decisions.find_explanation(database, caller.tenant_id, explanation_id))


@records_router.post(
    "/{explanation_id}/verify",
    operation_id="verify_explanation",
    response_model=VerificationAnswer,
    responses=problems(404, 409, 429, 502, 504),
)
async def verify(
    explanation_id: UUID,
    caller: ClientCaller,
    resources: ResourcesDep,
    key: IdempotencyKey,
    counterfactual: Which = 0,
    deadline_ms: Deadline = None,
) -> Response:
    """Does this recourse still hold under the ensemble as it is now? One query, unless the same was asked before."""

    async def work(keep: Keep) -> StoredReply:
        found = await resources.ask.verify(caller.tenant_id, explanation_id, counterfactual, deadline_ms)
        return StoredReply(200, _verified(found).model_dump_json())

    keyed = None if key is None else key.on(explanation_id, counterfactual)
    return replied(await resources.idempotent.run(caller.tenant_id, "/verify", keyed, work))


def _verified(found: Verification) -> VerificationAnswer:
    votes = [VoteAnswer(model=model, accepts=accepts) for model, accepts in found.votes]
    return VerificationAnswer(
        id=found.id,
        holds=found.holds,
        agreement=found.agreement,
        lower_bound=found.lower_bound,
        min_agreement=found.min_agreement,
        votes=votes,
        charged=found.charged,
        model=found.model,
        promised_version=found.promised_version,
        asked_version=found.asked_version,
    )
