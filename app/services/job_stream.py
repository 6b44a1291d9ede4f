"""The events of a job as they happen: read from the table, so that any process can tell them, from any event on."""

from collections.abc import AsyncIterator
from uuid import UUID

from anyio import sleep, to_thread

from app.db import job_events, jobs
from app.db.engine import Database
from app.db.service_tables import JobState
from app.db.types import AnyRow
from app.errors import NotFoundError
from app.services.live import Standing
from app.services.paging import PageOrder, RowPage, cut

POLL_SECONDS = 0.5
FINISHED = frozenset({JobState.DONE.value, JobState.FAILED.value, JobState.CANCELLED.value})


def find_job(database: Database, tenant_id: int, job_id: UUID) -> AnyRow:
    with database.reading() as connection:
        row = jobs.find(connection, tenant_id, job_id)
    if row is None:
        raise NotFoundError(f"there is no job {job_id}: see GET /jobs")
    return row


def list_jobs(
    database: Database, tenant_id: int, order: PageOrder, state: JobState | None, model: str | None
) -> RowPage:
    with database.reading() as connection:
        found = jobs.page(connection, tenant_id, order.after, order.limit + 1, state, model)
    return cut(found, order.limit)


async def follow(
    database: Database, tenant_id: int, job_id: UUID, after: int, standing: Standing
) -> AsyncIterator[AnyRow]:
    """The events behind `after`, then new ones as they come, until all are told or the caller may listen no more."""

    def read(last: int) -> tuple[list[AnyRow], bool]:
        # One state of the database: whoever sees the job ended also sees its last event.
        with database.reading() as connection:
            row = jobs.find(connection, tenant_id, job_id)
            return job_events.after(connection, tenant_id, job_id, last), row is None or row.state in FINISHED

    while await standing.holds():
        events, ended = await to_thread.run_sync(read, after)
        for event in events:
            after = event.id
            yield event
        if ended and not events:
            return
        if not events:
            await sleep(POLL_SECONDS)
