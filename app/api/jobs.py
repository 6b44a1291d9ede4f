"""/jobs: how a training gets on, live too, and how it is cancelled."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent

from app.api.dependencies import Caller, ClientCaller, DatabaseDep, KeyedRoute, ResourcesDep
from app.api.live_stream import LiveStream, standing_of
from app.db.service_tables import JobState
from app.db.types import AnyRow
from app.schemas.fields import NAME_PATTERN
from app.schemas.paging import Page, PageQuery
from app.schemas.problem import problems
from app.schemas.train import JobAnswer
from app.services import job_stream, jobs

router = APIRouter(prefix="/jobs", tags=["training"], route_class=KeyedRoute)

StateQuery = Annotated[JobState | None, Query(description="Only jobs in this state.")]
ModelQuery = Annotated[str | None, Query(pattern=NAME_PATTERN, description="Only jobs of this model.")]
LastEvent = Annotated[int, Header(alias="Last-Event-ID", ge=0, lt=2**63, description="Go on behind this event.")]
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events `state`, `progress` and `log`, until the job has ended.",
        "content": {
            "text/event-stream": {
                "schema": {
                    "type": "object",
                    "description": "One event.",
                    "properties": {
                        "id": {"type": "string"},
                        "event": {"enum": ["state", "progress", "log"]},
                        "data": {"type": "string", "description": "A JSON object."},
                    },
                },
                "example": 'id: 7\nevent: progress\ndata: {"phase": "flow", "step": 120, "steps": 400}\n\n',
            }
        },
    }
}


@router.get("", operation_id="list_jobs", responses=problems())
def page(
    order: PageQuery, caller: Caller, database: DatabaseDep, state: StateQuery = None, model: ModelQuery = None
) -> Page[JobAnswer]:
    """The jobs, newest first."""
    found = job_stream.list_jobs(database, caller.tenant_id, order, state, model)
    return Page(items=[JobAnswer.model_validate(row) for row in found.rows], next=found.next)


@router.get("/{job_id}", operation_id="show_job", responses=problems(404))
def show(job_id: UUID, caller: Caller, database: DatabaseDep) -> JobAnswer:
    """One job."""
    return JobAnswer.model_validate(job_stream.find_job(database, caller.tenant_id, job_id))


@router.get(
    "/{job_id}/events",
    operation_id="follow_job",
    response_class=EventSourceResponse,
    responses={**problems(404), **STREAM},
)
async def events(
    job_id: UUID, caller: Caller, resources: ResourcesDep, request: Request, last: LastEvent = 0
) -> EventSourceResponse:
    """The job's events as they happen. A stream that broke off goes on with the header Last-Event-ID."""
    database, tenant_id = resources.database, caller.tenant_id
    await to_thread.run_sync(job_stream.find_job, database, tenant_id, job_id)
    found = job_stream.follow(database, tenant_id, job_id, last, standing_of(request))
    return LiveStream(_told(found), resources.stream_room, tenant_id)


@router.delete("/{job_id}", status_code=202, operation_id="cancel_job", responses=problems(404, 409))
def cancel(job_id: UUID, caller: ClientCaller, database: DatabaseDep) -> JobAnswer:
    """Cancel a job: at once if it waits, within seconds if it runs. What it had asked the ensemble stays charged."""
    return JobAnswer.model_validate(jobs.cancel(database, caller.tenant_id, job_id))


async def _told(events: AsyncIterator[AnyRow]) -> AsyncIterator[ServerSentEvent]:
    async for event in events:
        data = json.dumps({**event.payload, "at": event.at.isoformat()})
        yield ServerSentEvent(data, event=event.kind, id=str(event.id))
