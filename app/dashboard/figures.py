"""What only the dashboard asks for: figures beside a budget, the ledger newest first, budgets as they change.

The figures say what became of a budget's queries, and when it will be used up at the pace of the last days.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from anyio import sleep
from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from sse_starlette import EventSourceResponse, ServerSentEvent

from app.api.budgets import EntryAnswer, Moment
from app.api.dependencies import Caller, DatabaseDep, KeyedRoute, LedgerDep, LiveStream, ResourcesDep, still_authorised
from app.api.problems import Refusals
from app.concurrency import StillAuthorised, ThreadShare
from app.db.engine import Database
from app.db.ledger_tables import EntryType
from app.db.paging import MOST_ITEMS, PageOrder
from app.db.tables import utc_now
from app.ensembles.service import find_ensemble, list_budgets
from app.explain import decisions
from app.fields import NameInPath
from app.ledger import queries
from app.ledger.audit import Step, UsagePoint, usage_series
from app.ledger.balance import Balance
from app.ledger.ledger import Ledger
from app.resources import Resources


@dataclass(frozen=True, slots=True)
class Refusal:
    """Requests of the tenant that were refused for one reason since the process began."""

    reason: str
    title: str
    count: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one ensemble; `outcomes` counts explained records by status."""

    ensemble: str
    outcomes: dict[str, int]
    explain_queries: int
    queries_per_robust: float | None
    refusals: list[Refusal]
    refusals_since: datetime
    per_day: float
    exhausted_at: datetime | None


def figures(
    database: Database, ledger: Ledger, refusals: Refusals, tenant_id: int, name: str, now: datetime
) -> Figures:
    ensemble = find_ensemble(database, tenant_id, name)
    with database.reading() as connection:
        rows = decisions.count_outcomes(connection, tenant_id, ensemble.id)
    counts = {row.status: int(row.records) for row in rows}
    queries = sum(int(row.queries or 0) for row in rows)
    robust = counts.get("robust", 0)
    hours = usage_series(database, tenant_id, ensemble.id, Step.HOUR, now - SPAN, now)
    pace = project(hours, ledger.balance(tenant_id, ensemble.id), now)
    return Figures(
        ensemble=name,
        outcomes=counts,
        explain_queries=queries,
        queries_per_robust=queries / robust if robust else None,
        refusals=[Refusal(word, title, count) for word, title, count in refusals.of(tenant_id)],
        refusals_since=refusals.since,
        per_day=pace.per_day,
        exhausted_at=pace.exhausted_at,
    )


router = APIRouter(prefix="/dashboard", route_class=KeyedRoute, include_in_schema=False)

LOOK_SECONDS = 1.0
LINES = 25


@router.get("/figures/{ensemble}")
def show_figures(
    ensemble: NameInPath, caller: Caller, database: DatabaseDep, ledger: LedgerDep, request: Request
) -> Figures:
    refusals = request.app.state.refusals
    assert isinstance(refusals, Refusals)
    return figures(database, ledger, refusals, caller.tenant_id, ensemble, utc_now())


@router.get("/ledger/{ensemble}")
def show_ledger(
    ensemble: NameInPath,
    caller: Caller,
    database: DatabaseDep,
    kind: EntryType | None = None,
    since: Moment = None,
    until: Moment = None,
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
) -> dict[str, object]:
    """A page of the ledger, newest first; `next` is the `before` of the page behind it."""
    row = find_ensemble(database, caller.tenant_id, ensemble)
    with database.reading() as connection:
        found = queries.newest_entries(connection, caller.tenant_id, row.id, before, LINES + 1, kind, since, until)
    items = [EntryAnswer.model_validate(dict(line)) for line in found[:LINES]]
    return {"items": items, "next": items[-1].id if len(found) > LINES else None}


@router.get("/budget-events")
async def follow_budgets(caller: Caller, resources: ResourcesDep, request: Request) -> EventSourceResponse:
    """The budgets whenever one of them has changed."""
    threads = resources.stream_threads.share(caller.tenant_id)
    changes = _changes(resources, threads, still_authorised(request, threads))
    return LiveStream(changes, resources.streams, caller.tenant_id)


async def _changes(
    resources: Resources, threads: ThreadShare, authorised: StillAuthorised
) -> AsyncIterator[ServerSentEvent]:
    def read() -> bytes:
        found, _ = list_budgets(resources.database, resources.ledger, threads.tenant_id, PageOrder(MOST_ITEMS))
        shown = [
            {
                "ensemble": one.ensemble,
                "limit": one.balance.limit,
                "used": one.balance.used,
                "reserved": one.balance.reserved,
                "remaining": one.balance.remaining,
            }
            for one in found
        ]
        return to_json(shown)

    last = b""
    while await authorised.holds():
        now = await threads.run(read)
        if now != last:
            last = now
            yield ServerSentEvent(now.decode(), event="budgets")
        await sleep(LOOK_SECONDS)


SPAN = timedelta(days=7)
LEAST_SPAN = timedelta(days=1)
"""One training in the first hour is no pace of 24 trainings a day."""
FARTHEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Projection:
    """`per_day` queries; `exhausted_at` None where it will not run out: no use, or the period ends before."""

    per_day: float
    exhausted_at: datetime | None


def project(points: Sequence[UsagePoint], balance: Balance, now: datetime) -> Projection:
    """`points` by the hour, of the last seven days."""
    recent = [point for point in points if point.at > now - SPAN]
    asked = sum(point.dispatched for point in recent)
    if not asked:
        return Projection(0.0, None)
    span = max(min(now - recent[0].at, SPAN), LEAST_SPAN)
    per_day = asked / (span / timedelta(days=1))
    left = timedelta(days=max(balance.remaining, 0) / per_day)
    exhausted = now + left if left < FARTHEST else None
    if exhausted is not None and balance.period_ends is not None and exhausted >= balance.period_ends:
        exhausted = None
    return Projection(per_day, exhausted)
