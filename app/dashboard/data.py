"""What only the dashboard asks for: figures beside a budget, the ledger newest first, and budgets as they fall."""

from collections.abc import AsyncIterator
from typing import Annotated

from anyio import sleep, to_thread
from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from sse_starlette import EventSourceResponse, ServerSentEvent

from app.api.dependencies import Caller, DatabaseDep, KeyedRoute, LedgerDep, ResourcesDep
from app.api.live_stream import LiveStream, standing_of
from app.dashboard.figures import Figures, figures
from app.db import entries
from app.db.tables import Kind
from app.ledger.ledger import utc_now
from app.resources import Resources
from app.schemas.budgets import EntryAnswer, Moment
from app.schemas.fields import NameInPath
from app.services.budgets import find_ensemble, list_budgets
from app.services.live import Standing
from app.services.paging import MOST_ITEMS, PageOrder
from app.services.refusals import Refusals

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
    kind: Kind | None = None,
    since: Moment = None,
    until: Moment = None,
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
) -> dict[str, object]:
    """A page of the ledger, newest first; `next` is the `before` of the page behind it."""
    row = find_ensemble(database, caller.tenant_id, ensemble)
    with database.reading() as connection:
        found = entries.newest(connection, caller.tenant_id, row.id, before, LINES + 1, kind, since, until)
    items = [EntryAnswer.model_validate(dict(line)) for line in found[:LINES]]
    return {"items": items, "next": items[-1].id if len(found) > LINES else None}


@router.get("/budget-events")
async def follow_budgets(caller: Caller, resources: ResourcesDep, request: Request) -> EventSourceResponse:
    """The budgets whenever one of them has changed."""
    changes = _changes(resources, caller.tenant_id, standing_of(request))
    return LiveStream(changes, resources.stream_room, caller.tenant_id)


async def _changes(resources: Resources, tenant_id: int, standing: Standing) -> AsyncIterator[ServerSentEvent]:
    def read() -> bytes:
        found, _ = list_budgets(resources.database, resources.ledger, tenant_id, PageOrder(MOST_ITEMS))
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
    while await standing.holds():
        now = await to_thread.run_sync(read)
        if now != last:
            last = now
            yield ServerSentEvent(now.decode(), event="budgets")
        await sleep(LOOK_SECONDS)
