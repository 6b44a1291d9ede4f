"""/train and /jobs: a job is made, followed live, and cancelled."""

import json
from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial
from typing import Annotated, Any
from uuid import UUID, uuid4

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from sse_starlette import EventSourceResponse, ServerSentEvent

from app.api.dependencies import (
    AnalystCaller,
    Caller,
    DatabaseDep,
    IdempotencyKey,
    KeyedRoute,
    LiveStream,
    Page,
    PageQuery,
    ResourcesDep,
    replied,
    still_authorised,
)
from app.api.problems import WITH_BODY, problems
from app.db.tables import AnyRow, JobState
from app.fields import NAME_PATTERN
from app.idempotency import StoredReply
from app.train import jobs, service
from app.train.request import TrainRequest

JOB: dict[str, Any] = {
    "id": "5a3c1e0b-9f6c-4f0e-9a55-7c110a1f6f0f",
    "model": "loans",
    "state": "running",
    "progress": {"phase": "flow", "step": 120, "steps": 400, "loss": 0.41, "queries": 8000},
    "cancel_requested": False,
    "attempts": 1,
    "error": None,
    "model_version_id": None,
    "created_at": "2026-01-31T09:30:00Z",
    "started_at": "2026-01-31T09:30:01Z",
    "finished_at": None,
}


class JobSummary(BaseModel):
    """A training job in a list, as it stands."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [JOB]})

    id: UUID
    model: str = Field(validation_alias="model_name")
    state: JobState
    progress: dict[str, Any] | None = Field(description="Phase, step, steps, loss, queries, eta_seconds.")
    cancel_requested: bool
    attempts: int = Field(description="How often the job was begun since it last got further.")
    error: str | None = Field(description="Why it failed, and what to do.")
    model_version_id: UUID | None = Field(description="The version that it published.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobAnswer(JobSummary):
    """A training job, with what was asked for."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [JOB | {"request": {"dataset_id": "0b9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11", "preset": "fast"}}]
        },
    )

    request: dict[str, Any]


router = APIRouter(tags=["training"], route_class=KeyedRoute)


@router.post(
    "/train",
    status_code=202,
    operation_id="train",
    response_model=JobAnswer,
    responses=problems(*WITH_BODY, 404, 409, 429),
)
def submit(body: TrainRequest, caller: AnalystCaller, resources: ResourcesDep, keyed: IdempotencyKey) -> Response:
    """Train a model: 202 and the job; watch it at GET /jobs/{id} or live at GET /jobs/{id}/events."""
    tenant_id, settings, job_id = caller.tenant_id, resources.settings, uuid4()
    check = partial(service.check_budget, resources.database, resources.ledger, settings, tenant_id, body)

    def work(connection: Connection) -> StoredReply:
        row = service.submit(connection, tenant_id, job_id, body, settings.max_queued_jobs)
        return StoredReply(202, JobAnswer.model_validate(row).model_dump_json())

    reply = resources.idempotent.once(tenant_id, "/train", keyed, work, check)
    if not reply.replayed:
        resources.queue.wake(job_id)
    return replied(reply)


jobs_router = APIRouter(prefix="/jobs", tags=["training"], route_class=KeyedRoute)

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


@jobs_router.get("", operation_id="list_jobs", responses=problems())
def page(
    order: PageQuery, caller: Caller, database: DatabaseDep, state: StateQuery = None, model: ModelQuery = None
) -> Page[JobSummary]:
    """The jobs, newest first; GET /jobs/{id} also has what was asked for."""
    return Page[JobSummary].of(database.read(jobs.jobs_page, caller.tenant_id, order, state, model))


@jobs_router.get("/{job_id}", operation_id="show_job", responses=problems(404))
def show(job_id: UUID, caller: Caller, database: DatabaseDep) -> JobAnswer:
    """One job."""
    return JobAnswer.model_validate(service.show_job(database, caller.tenant_id, job_id))


@jobs_router.get(
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
    await to_thread.run_sync(service.show_job, database, tenant_id, job_id)
    threads = resources.stream_threads.share(tenant_id)
    found = service.follow(database, threads, job_id, last, still_authorised(request, threads))
    return LiveStream(_told(found), resources.streams, tenant_id)


@jobs_router.delete("/{job_id}", status_code=202, operation_id="cancel_job", responses=problems(404, 409))
def cancel(job_id: UUID, caller: AnalystCaller, resources: ResourcesDep) -> JobAnswer:
    """Cancel a job: at once if it waits, within seconds if it runs. What it had asked the ensemble stays charged."""
    parts = resources.database, resources.ledger, resources.artifacts
    return JobAnswer.model_validate(service.cancel(*parts, caller.tenant_id, job_id))


async def _told(events: AsyncIterator[AnyRow]) -> AsyncIterator[ServerSentEvent]:
    async for event in events:
        data = json.dumps({**event.payload, "at": event.at.isoformat()})
        yield ServerSentEvent(data, event=event.kind, id=str(event.id))
