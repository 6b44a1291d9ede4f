"""/explanations: decision records, and whether what they promise still holds."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from app.api.dependencies import Caller, ClientCaller, DatabaseDep, KeyedRoute, ResourcesDep
from app.schemas.explain import VoteAnswer
from app.schemas.explanations import DecisionAnswer, ExplanationSummary, VerificationAnswer
from app.schemas.fields import NAME_PATTERN
from app.schemas.paging import Page, PageQuery
from app.schemas.problem import problems
from app.services import explanations
from app.services.verify import verify as verify_recourse

router = APIRouter(prefix="/explanations", tags=["explain"], route_class=KeyedRoute)

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


@router.get("", operation_id="list_explanations", responses=problems())
def page(
    order: PageQuery, caller: Caller, database: DatabaseDep, model: OfModel = None, status: StatusName | None = None
) -> Page[ExplanationSummary]:
    """The decision records, newest first."""
    found = explanations.list_explanations(database, caller.tenant_id, model, status, order)
    return Page(items=[ExplanationSummary.model_validate(row) for row in found.rows], next=found.next)


@router.get("/{explanation_id}", operation_id="show_explanation", responses=problems(404))
def show(explanation_id: UUID, caller: Caller, database: DatabaseDep) -> DecisionAnswer:
    """One decision record: input, constraints, seed, model version, votes, queries."""
    return DecisionAnswer.model_validate(explanations.find_explanation(database, caller.tenant_id, explanation_id))


@router.post("/{explanation_id}/verify", operation_id="verify_explanation", responses=problems(404, 409, 429, 502, 504))
async def verify(
    explanation_id: UUID,
    caller: ClientCaller,
    resources: ResourcesDep,
    counterfactual: Which = 0,
    deadline_ms: Deadline = None,
) -> VerificationAnswer:
    """Does this recourse still hold under the ensemble as it is now? One query, unless the same was asked before."""
    found = await verify_recourse(resources, caller.tenant_id, explanation_id, counterfactual, deadline_ms)
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
