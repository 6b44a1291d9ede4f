"""/budgets: limits, burn-down, audit."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from app.api.dependencies import AdminCaller, Caller, DatabaseDep, KeyedRoute, LedgerDep
from app.db.entries import Step
from app.schemas.budgets import BudgetAnswer, BudgetBody, EntryAnswer, Moment, UsageAnswer, UsagePointAnswer
from app.schemas.fields import NameInPath
from app.schemas.paging import Page, PageQuery
from app.schemas.problem import WITH_BODY, problems
from app.services import budgets
from app.services.budgets import NamedBalance

router = APIRouter(prefix="/budgets", tags=["budgets"], route_class=KeyedRoute)

FormatQuery = Annotated[Literal["json", "csv"] | None, Query(description="csv: the whole ledger, as a file.")]
AcceptHeader = Annotated[str, Header(description="text/csv is the same as format=csv.")]
AS_CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}, "example": "id,at,ensemble,period,kind\n"}}}
}


@router.get("", operation_id="list_budgets", responses=problems())
def page(order: PageQuery, caller: Caller, database: DatabaseDep, ledger: LedgerDep) -> Page[BudgetAnswer]:
    """Every budget as it stands."""
    found, following = budgets.list_budgets(database, ledger, caller.tenant_id, order)
    return Page(items=[_shown(balance) for balance in found], next=following)


@router.put("/{ensemble}", operation_id="set_budget", responses=problems(*WITH_BODY, 404, 409))
def put(
    ensemble: NameInPath, body: BudgetBody, caller: AdminCaller, database: DatabaseDep, ledger: LedgerDep
) -> BudgetAnswer:
    """Set the limit. Below what is used it stops new requests; nothing that was promised is taken back.

    Another `period` counts anew: where queries are used already, that needs `restart`, else the answer is a 409.
    """
    wanted = body.limit, body.period, body.restart
    return _shown(budgets.set_budget(database, ledger, caller.tenant_id, ensemble, *wanted))


@router.get("/{ensemble}/usage", operation_id="show_usage", responses=problems(404, 413))
def usage(
    ensemble: NameInPath,
    caller: Caller,
    database: DatabaseDep,
    step: Step = Step.DAY,
    since: Moment = None,
    until: Moment = None,
) -> UsageAnswer:
    """The queries asked over time, for charts."""
    found = budgets.show_usage(database, caller.tenant_id, ensemble, step, since, until)
    points = [UsagePointAnswer(at=point.at, dispatched=point.dispatched, total=point.total) for point in found.points]
    return UsageAnswer(ensemble=ensemble, step=step, since=found.since, until=found.until, points=points)


@router.get(
    "/{ensemble}/ledger",
    operation_id="show_ledger",
    response_model=Page[EntryAnswer],
    responses={**problems(404), **AS_CSV},
)
def entries(
    ensemble: NameInPath,
    order: PageQuery,
    caller: Caller,
    database: DatabaseDep,
    format: FormatQuery = None,
    accept: AcceptHeader = "application/json",
) -> Page[EntryAnswer] | StreamingResponse:
    """The audit trail, oldest first: JSON in pages, or all of it as CSV."""
    if format == "csv" or (format is None and accept.lower().startswith("text/csv")):
        return StreamingResponse(budgets.export_entries(database, caller.tenant_id, ensemble), media_type="text/csv")
    found, following = budgets.list_entries(database, caller.tenant_id, ensemble, order)
    return Page(items=[EntryAnswer.model_validate(dict(row)) for row in found], next=following)


def _shown(named: NamedBalance) -> BudgetAnswer:
    balance = named.balance
    return BudgetAnswer(
        ensemble=named.ensemble,
        period=balance.period,
        period_key=balance.period_key,
        period_ends=balance.period_ends,
        limit=balance.limit,
        used=balance.used,
        reserved=balance.reserved,
        remaining=balance.remaining,
    )
