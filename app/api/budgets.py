"""/budgets: limits, what was used over time, and the ledger."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from sqlalchemy import Connection

from app.api.dependencies import (
    AdminCaller,
    Caller,
    DatabaseDep,
    Download,
    IdempotencyKey,
    KeyedRoute,
    LedgerDep,
    Page,
    PageQuery,
    ResourcesDep,
    replied,
)
from app.api.problems import WITH_BODY, problems
from app.db.ledger_tables import EntryType, Period
from app.ensembles import service
from app.ensembles.service import NamedBalance
from app.fields import Body, NameInPath
from app.idempotency import StoredReply
from app.ledger.audit import Step
from app.ledger.balance import MOST_REASON, Correction
from app.ledger.ledger import MOST_QUERIES

EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
Moment = Annotated[AwareDatetime | None, Query(ge=EARLIEST, le=LATEST, examples=["2026-01-01T00:00:00Z"])]


class BudgetBody(Body):
    """A limit, and how often it starts from zero."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"limit": 100000, "period": "month"}]})

    limit: int = Field(ge=0, le=MOST_QUERIES, description="Queries; one is one record put to the ensemble.")
    period: Period | None = Field(
        None,
        description="How often it starts from zero. Left out: as it is; a new budget has one limit without an end.",
    )
    restart: bool = Field(
        False,
        description="Another period has counters of its own, which know nothing of what is used in the present one. "
        "Where queries are used, a change of the period must say true here.",
    )


class BudgetAnswer(BaseModel):
    """A budget in its present period."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "ensemble": "loans",
                    "period": "month",
                    "period_key": "2026-01",
                    "period_ends": "2026-02-01T00:00:00Z",
                    "limit": 100000,
                    "used": 8211,
                    "reserved": 64,
                    "remaining": 91725,
                }
            ]
        }
    )

    ensemble: str
    period: Period
    period_key: str
    period_ends: datetime | None
    limit: int
    used: int
    reserved: int = Field(description="Promised to requests and jobs that are under way.")
    remaining: int


class CorrectionBody(Body):
    """Queries to give back or to add, and why. No entry of the ledger is changed: this becomes one more."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"queries": -32, "reason": "the models were down", "reverses": 19}]}
    )

    queries: int = Field(
        ge=-MOST_QUERIES, le=MOST_QUERIES, description="Below 0 gives used queries back, above 0 adds some; never 0."
    )
    reason: str = Field(min_length=1, max_length=MOST_REASON, description="Why; it stays in the ledger.")
    reverses: int | None = Field(
        None, ge=1, lt=2**63, description="The entry of this ledger that it takes back, in full or in part."
    )


class UsagePointAnswer(BaseModel):
    """Queries asked in the step that begins at `at`, and in all since the series began; what was corrected in it."""

    at: datetime
    dispatched: int
    total: int
    corrected: int = Field(0, description="What admins added to the used queries in the step; below 0: gave back.")


class UsageAnswer(BaseModel):
    """The queries asked over time; steps without any are left out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "ensemble": "loans",
                    "step": "day",
                    "since": "2026-01-01T00:00:00Z",
                    "until": "2026-01-31T00:00:00Z",
                    "points": [{"at": "2026-01-30T00:00:00Z", "dispatched": 211, "total": 211, "corrected": -32}],
                }
            ]
        }
    )

    ensemble: str
    step: Step
    since: datetime
    until: datetime
    points: list[UsagePointAnswer]


def _as_hex(mac: bytes | str | None) -> str | None:
    return mac.hex() if isinstance(mac, bytes) else mac


class EntryAnswer(BaseModel):
    """A line of the ledger: what it added to each counter."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [
                {
                    "id": 17,
                    "at": "2026-01-30T11:20:00Z",
                    "ensemble": "loans",
                    "period": "2026-01",
                    "kind": "dispatch",
                    "reservation": "5a3c1e0b-9f6c-4f0e-9a55-7c110a1f6f0f",
                    "query_limit": 0,
                    "reserved": 0,
                    "dispatched": 32,
                    "used": 0,
                    "reason": None,
                    "made_by": None,
                    "reverses": None,
                    "number": 17,
                    "mac": "9f2c6d0f6b0c4f5ea5d7c110a1f6f0f49f2c6d0f6b0c4f5ea5d7c110a1f6f0f4",
                }
            ]
        },
    )

    id: int
    at: datetime
    ensemble: str
    period: str
    kind: EntryType
    reservation: UUID | None
    query_limit: int
    reserved: int
    dispatched: int
    used: int
    reason: str | None = Field(description="Why it was corrected; of corrections alone.")
    made_by: str | None = Field(description="Who corrected it.")
    reverses: int | None = Field(description="The entry that a correction takes back.")
    number: int | None = Field(description="Its place in the chain of its period; null from before there were chains.")
    mac: Annotated[str | None, BeforeValidator(_as_hex)] = Field(
        description="The keyed hash over what stands before it and over itself; `recourse budget check` verifies it."
    )


router = APIRouter(prefix="/budgets", tags=["budgets"], route_class=KeyedRoute)

FormatQuery = Annotated[Literal["json", "csv"] | None, Query(description="csv: the whole ledger, as a file.")]
AcceptHeader = Annotated[str, Header(description="text/csv is the same as format=csv.")]
AS_CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}, "example": "id,at,ensemble,period,kind\n"}}}
}


@router.get("", operation_id="list_budgets", responses=problems())
def page(order: PageQuery, caller: Caller, database: DatabaseDep, ledger: LedgerDep) -> Page[BudgetAnswer]:
    """Every budget as it stands."""
    found, following = service.list_budgets(database, ledger, caller.tenant_id, order)
    return Page(items=[_shown(balance) for balance in found], next=following)


@router.put("/{ensemble}", operation_id="set_budget", responses=problems(*WITH_BODY, 404, 409))
def put(
    ensemble: NameInPath, body: BudgetBody, caller: AdminCaller, database: DatabaseDep, ledger: LedgerDep
) -> BudgetAnswer:
    """Set the limit. Below what is used it stops new requests; nothing that was promised is taken back.

    Another `period` starts from zero: where queries are used already, that needs `restart`, else the answer is a 409.
    """
    wanted = body.limit, body.period, body.restart
    return _shown(service.set_budget(database, ledger, caller.tenant_id, ensemble, *wanted))


@router.post(
    "/{ensemble}/corrections",
    operation_id="correct_budget",
    status_code=201,
    response_model=BudgetAnswer,
    responses=problems(*WITH_BODY, 404, 409),
)
def correct(
    ensemble: NameInPath, body: CorrectionBody, caller: AdminCaller, resources: ResourcesDep, keyed: IdempotencyKey
) -> Response:
    """Correct what is used in the present period, by an entry of its own with a reason; nothing is edited.

    No more can be given back than is used, and nothing is added above the limit: raise the limit first. An entry can be
    taken back in parts, never by more than it added. Else the answer is a 409.
    """
    wanted = Correction(body.queries, body.reason, f"key {caller.key_id}", body.reverses)

    def work(connection: Connection) -> StoredReply:
        named = service.correct(connection, resources.ledger, caller.tenant_id, ensemble, wanted, caller.key_id)
        return StoredReply(201, _shown(named).model_dump_json())

    keyed = None if keyed is None else keyed.on(ensemble)
    return replied(resources.idempotent.once(caller.tenant_id, "/corrections", keyed, work))


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
    found = service.show_usage(database, caller.tenant_id, ensemble, step, since, until)
    points = [UsagePointAnswer(**asdict(point)) for point in found.points]
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
    resources: ResourcesDep,
    format: FormatQuery = None,
    accept: AcceptHeader = "application/json",
) -> Page[EntryAnswer] | StreamingResponse:
    """The audit trail, oldest first: JSON in pages, or all of it as CSV."""
    if format == "csv" or (format is None and accept.lower().startswith("text/csv")):
        lines = service.export_entries(database, caller.tenant_id, ensemble)
        return Download(lines, resources, caller.tenant_id, media_type="text/csv")
    return Page[EntryAnswer].of(service.list_entries(database, caller.tenant_id, ensemble, order))


def _shown(named: NamedBalance) -> BudgetAnswer:
    balance = named.balance
    return BudgetAnswer(ensemble=named.ensemble, remaining=balance.remaining, **asdict(balance))
