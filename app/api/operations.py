"""Health, readiness and metrics. Health needs no key; metrics are of the key's own tenant.

Readiness asks the database, the queue, a worker and the disk at the same time. /metrics, for Prometheus, holds the
counters of this process (app/metrics.py), and what the database knows at that moment: budgets and jobs.
"""

import shutil
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Literal

from anyio import create_task_group, move_on_after, to_thread
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import text

from app.api.dependencies import Caller, MetricsDep, ResourcesDep
from app.api.problems import problems
from app.db.engine import Database
from app.db.paging import MOST_ITEMS, PageOrder
from app.db.tables import AnyRow, JobState
from app.ensembles.budgets import NamedBalance, list_budgets
from app.explain.contract import ExplainerState
from app.resources import Resources
from app.train import jobs

PartName = Literal["database", "queue", "worker", "disk"]


class LiveAnswer(BaseModel):
    """The process answers."""

    live: bool = Field(examples=[True])


class PartAnswer(BaseModel):
    """One part of the service."""

    name: PartName
    ready: bool
    reason: str | None


class ReadyAnswer(BaseModel):
    """Whether requests would be answered, and which part is in the way."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"ready": True, "parts": [{"name": "database", "ready": True, "reason": None}]}]
        }
    )

    ready: bool
    parts: list[PartAnswer]


router = APIRouter(tags=["operations"])
NOT_READY = 503


@router.get("/livez", operation_id="live")
async def live() -> LiveAnswer:
    """The process answers; nothing else is looked at."""
    return LiveAnswer(live=True)


@router.get("/readyz", operation_id="ready", responses={NOT_READY: {"model": ReadyAnswer}})
async def ready(response: Response, resources: ResourcesDep) -> ReadyAnswer:
    """Whether the database, the queue, a worker and the disk are there; 503 names the part that is not."""
    parts = await check_parts(resources)
    well = all(part.ready for part in parts)
    response.status_code = 200 if well else NOT_READY
    return ReadyAnswer(ready=well, parts=parts)


@router.get("/v2/health/live", operation_id="oip_live")
async def oip_live() -> LiveAnswer:
    """The same as /livez, under the name of the Open Inference Protocol."""
    return LiveAnswer(live=True)


@router.get("/v2/health/ready", operation_id="oip_ready", responses={NOT_READY: {"model": ReadyAnswer}})
async def oip_ready(response: Response, resources: ResourcesDep) -> ReadyAnswer:
    """The same as /readyz, under the name of the Open Inference Protocol."""
    return await ready(response, resources)


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        **problems(),
        200: {"content": {"text/plain": {"schema": {"type": "string"}, "example": 'recourse_jobs{state="done"} 3'}}},
    },
)
async def metrics(caller: Caller, resources: ResourcesDep, metrics: MetricsDep) -> Response:
    """Requests of this process; budgets and jobs of the key's tenant. Any key will do, a viewer's is best."""
    state = await resources.explainer.state()
    known = await to_thread.run_sync(collect_metrics, resources, caller.tenant_id, state)
    return Response(generate_latest(metrics.registry) + known, media_type=CONTENT_TYPE_LATEST)


PART_SECONDS = 4.0
"""A part that has not answered by then counts as away."""


async def check_parts(resources: Resources) -> list[PartAnswer]:
    """Database, queue, worker and disk, asked at the same time."""
    in_thread = partial(to_thread.run_sync, abandon_on_cancel=True, limiter=resources.health_threads)
    checks: dict[PartName, Callable[[], Awaitable[str | None]]] = {
        "database": lambda: in_thread(_database, resources.database),
        "queue": lambda: in_thread(_queue, resources),
        "worker": lambda: _worker(resources),
        "disk": lambda: in_thread(_disk, resources),
    }
    found: dict[PartName, PartAnswer] = {}

    async def check(name: PartName, ask: Callable[[], Awaitable[str | None]]) -> None:
        late = f"it did not answer within {PART_SECONDS:g} s"
        found[name] = PartAnswer(name=name, ready=False, reason=late)
        with move_on_after(PART_SECONDS):
            try:
                reason = await ask()
            except Exception as error:
                # Whatever it is, it is this part that is not ready; the message could hold an address or a password.
                reason = f"it failed with {type(error).__name__}"
            found[name] = PartAnswer(name=name, ready=reason is None, reason=reason)

    async with create_task_group() as group:
        for name, ask in checks.items():
            group.start_soon(check, name, ask)
    return [found[name] for name in checks]


def _database(database: Database) -> str | None:
    database.check(lambda connection: connection.execute(text("SELECT 1 FROM jobs WHERE 1 = 0")))
    return None


def _queue(resources: Resources) -> str | None:
    return None if resources.queue.healthy() else "the training queue does not answer"


async def _worker(resources: Resources) -> str | None:
    state = await resources.explainer.state()
    return None if state.ready else state.reason or "no explainer answers"


def _disk(resources: Resources) -> str | None:
    folder, least = resources.settings.var_dir, resources.settings.min_free_bytes
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    return None if free >= least else f"{free} bytes are free in VAR_DIR, {least} are needed"


BUDGET_COUNTERS = ("limit", "used", "reserved", "remaining")


def collect_metrics(resources: Resources, tenant_id: int, explainer: ExplainerState) -> bytes:
    """The text that Prometheus reads."""
    balances, _ = list_budgets(resources.database, resources.ledger, tenant_id, PageOrder(MOST_ITEMS))
    with resources.database.reading() as connection:
        by_state = jobs.count_by_state(connection, tenant_id)
    registry = CollectorRegistry()
    registry.register(_Snapshot(balances, by_state, explainer))
    return generate_latest(registry)


class _Snapshot(Collector):
    """Metrics of one moment."""

    def __init__(self, balances: list[NamedBalance], jobs: list[AnyRow], explainer: ExplainerState) -> None:
        self._balances = balances
        self._jobs = {row.state: row for row in jobs}
        self._explainer = explainer

    def collect(self) -> Iterator[Metric]:
        for counter in BUDGET_COUNTERS:
            name, what = f"recourse_budget_{counter}", f"Queries of the present period: {counter}"
            gauge = GaugeMetricFamily(name, what, labels=("ensemble", "period"))
            for named in self._balances:
                gauge.add_metric((named.ensemble, named.balance.period_key), getattr(named.balance, counter))
            yield gauge
        yield from self._collect_jobs()
        state = self._explainer
        yield GaugeMetricFamily("recourse_explainer_ready", "Whether an explainer answers", value=state.ready)
        yield GaugeMetricFamily("recourse_explainer_workers", "Explainers that answer", value=state.workers)
        yield GaugeMetricFamily("recourse_explainer_versions", "Model versions in memory", value=state.versions)
        yield GaugeMetricFamily("recourse_explainer_queued", "Records that wait", value=state.queued_records)

    def _collect_jobs(self) -> Iterator[Metric]:
        count = GaugeMetricFamily("recourse_jobs", "Training jobs by state", labels=("state",))
        seconds = CounterMetricFamily("recourse_job_seconds", "Time that finished jobs took", labels=("state",))
        for state in JobState:
            row = self._jobs.get(state)
            count.add_metric((state,), 0 if row is None else row.jobs)
            if state not in (JobState.QUEUED, JobState.RUNNING):
                seconds.add_metric((state,), 0.0 if row is None else float(row.seconds))
        yield count
        yield seconds
