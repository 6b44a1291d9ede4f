"""Health, readiness and metrics. Health needs no key; metrics are of the key's own tenant, or the operator's.

Readiness asks the database, the queue, an explainer and the disk at the same time. Explaining goes on without the
queue, and training without an explainer, so each has an answer of its own. /metrics, for Prometheus, holds the
counters of this process (app/metrics.py), and what the database knows at that moment: budgets and jobs.
"""

import hmac
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, get_args

from anyio import create_task_group, move_on_after, to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import text

from app.api.dependencies import BEARER, MetricsDep, ResourcesDep, authenticate
from app.api.problems import problems
from app.auth import queries
from app.db.engine import Database
from app.db.paging import MOST_ITEMS, PageOrder
from app.db.tables import OPERATOR, OPERATOR_NAME, AnyRow, JobState, utc_now
from app.ensembles.service import NamedBalance, list_budgets
from app.explain.contract import ExplainerState
from app.resources import Resources
from app.settings import Settings
from app.train import jobs

PartName = Literal["database", "queue", "worker", "disk"]
Purpose = Literal["explaining", "training"]


class LiveAnswer(BaseModel):
    """The process answers."""

    live: bool = Field(examples=[True])


class PartAnswer(BaseModel):
    """One part of the service."""

    name: PartName
    ready: bool
    reason: str | None = Field(description="Why it is not ready, or what is wrong with it all the same.")
    needed_for: list[Purpose]


class ReadyAnswer(BaseModel):
    """Whether requests would be answered, and which part is in the way."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "ready": True,
                    "explaining": True,
                    "training": False,
                    "parts": [
                        {
                            "name": "queue",
                            "ready": False,
                            "reason": "the training queue does not answer",
                            "needed_for": ["training"],
                        }
                    ],
                }
            ]
        }
    )

    ready: bool = Field(description="For what was asked: explaining, unless `for` says training.")
    explaining: bool
    training: bool
    parts: list[PartAnswer]


Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]
router = APIRouter(tags=["operations"])
NOT_READY = 503
READINESS: dict[int | str, dict[str, Any]] = {NOT_READY: {"model": ReadyAnswer}, 422: problems()[422]}


@router.get("/livez", operation_id="live")
async def live() -> LiveAnswer:
    """The process answers; nothing else is looked at."""
    return LiveAnswer(live=True)


ForQuery = Annotated[Purpose, Query(alias="for", description="What the service should be ready for.")]


@router.get("/readyz", operation_id="ready", responses=READINESS)
async def ready(response: Response, resources: ResourcesDep, purpose: ForQuery = "explaining") -> ReadyAnswer:
    """Whether /explain would be answered, or trainings would run; 503 names the part that is in the way.

    For a load balancer as it is: an API that explains stays in service while the queue of trainings is away.
    """
    parts = await check_parts(resources)
    able = {goal: all(part.ready for part in parts if goal in part.needed_for) for goal in get_args(Purpose)}
    response.status_code = 200 if able[purpose] else NOT_READY
    return ReadyAnswer(ready=able[purpose], explaining=able["explaining"], training=able["training"], parts=parts)


@router.get("/v2/health/live", operation_id="oip_live")
async def oip_live() -> LiveAnswer:
    """The same as /livez, under the name of the Open Inference Protocol."""
    return LiveAnswer(live=True)


@router.get("/v2/health/ready", operation_id="oip_ready", responses=READINESS)
async def oip_ready(response: Response, resources: ResourcesDep, purpose: ForQuery = "explaining") -> ReadyAnswer:
    """The same as /readyz, under the name of the Open Inference Protocol."""
    return await ready(response, resources, purpose)


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        **problems(),
        200: {"content": {"text/plain": {"schema": {"type": "string"}, "example": 'recourse_jobs{state="done"} 3'}}},
    },
)
async def metrics(request: Request, bearer: Bearer, resources: ResourcesDep, metrics: MetricsDep) -> Response:
    """Budgets and jobs of the key's tenant; any key will do, a viewer's is best.

    With RECOURSE_METRICS_KEY, or while there is only one tenant: also the requests, batches and queues of this process,
    and the budgets and jobs of all tenants.
    """
    operator = bearer is not None and _is_operator(resources.settings, bearer.credentials)
    tenant_id = None if operator else (await authenticate(request)).tenant_id
    state = await resources.explainer.state()
    whole, known = await to_thread.run_sync(collect_metrics, resources, tenant_id, state)
    return Response((generate_latest(metrics.registry) if whole else b"") + known, media_type=CONTENT_TYPE_LATEST)


def _is_operator(settings: Settings, key: str) -> bool:
    wanted = settings.metrics_key
    return wanted is not None and hmac.compare_digest(key.encode(), wanted.get_secret_value().encode())


PART_SECONDS = 4.0
"""A part that has not answered by then counts as away."""


async def check_parts(resources: Resources) -> list[PartAnswer]:
    """Database, queue, worker (an explainer) and disk, asked at the same time."""
    # Decision records are kept in the database: where that is a file, explaining needs the disk too.
    embedded = resources.database.engine.dialect.name == "sqlite"
    both: list[Purpose] = ["explaining", "training"]
    needed_for: dict[PartName, list[Purpose]] = {
        "database": both,
        "queue": ["training"],
        "worker": ["explaining"],
        "disk": both if embedded else ["training"],
    }
    in_thread = partial(to_thread.run_sync, abandon_on_cancel=True, limiter=resources.health_threads)
    checks: dict[PartName, Callable[[], Awaitable[_Finding]]] = {
        "database": lambda: in_thread(_database, resources.database),
        "queue": lambda: in_thread(_queue, resources),
        "worker": lambda: _worker(resources),
        "disk": lambda: in_thread(_disk, resources),
    }
    found: dict[PartName, PartAnswer] = {}

    async def check(name: PartName, ask: Callable[[], Awaitable[_Finding]]) -> None:
        finding: _Finding = (False, f"it did not answer within {PART_SECONDS:g} s")
        with move_on_after(PART_SECONDS):
            try:
                finding = await ask()
            except Exception as error:
                # Whatever it is, it is this part that is not ready; the message could hold an address or a password.
                finding = (False, f"it failed with {type(error).__name__}")
        found[name] = PartAnswer(name=name, ready=finding[0], reason=finding[1], needed_for=needed_for[name])

    async with create_task_group() as group:
        for name, ask in checks.items():
            group.start_soon(check, name, ask)
    return [found[name] for name in checks]


_Finding: TypeAlias = tuple[bool, str | None]
"""Whether the part is ready, and what is wrong with it."""


def _database(database: Database) -> _Finding:
    database.check(lambda connection: connection.execute(text("SELECT 1 FROM jobs WHERE 1 = 0")))
    return True, None


def _queue(resources: Resources) -> _Finding:
    return (True, None) if resources.queue.healthy() else (False, "the training queue does not answer")


async def _worker(resources: Resources) -> _Finding:
    state = await resources.explainer.state()
    return state.ready, state.reason if state.ready else state.reason or "no explainer answers"


def _disk(resources: Resources) -> _Finding:
    folder, least = resources.settings.var_dir, resources.settings.min_free_bytes
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    return (True, None) if free >= least else (False, f"{free} bytes are free in VAR_DIR, {least} are needed")


BUDGET_COUNTERS = ("limit", "used", "reserved", "remaining")


@dataclass(frozen=True)
class _Figures:
    """What the database knows of one tenant; `labels` name it where there are several."""

    labels: tuple[str, ...]
    balances: list[NamedBalance]
    jobs: dict[str, AnyRow]


def collect_metrics(resources: Resources, tenant_id: int | None, explainer: ExplainerState) -> tuple[bool, bytes]:
    """Whether the caller may see the whole process, and the text that Prometheus reads; None: all tenants."""
    with resources.database.reading() as connection:
        tenants = queries.list_tenants(connection, utc_now())
        shown = [row for row in tenants if tenant_id in (None, row.id)]
        by_state = {row.id: {job.state: job for job in jobs.count_by_state(connection, row.id)} for row in shown}
    figures = [
        _Figures(
            (row.name,) if tenant_id is None else (),
            list_budgets(resources.database, resources.ledger, row.id, PageOrder(MOST_ITEMS))[0],
            by_state[row.id],
        )
        for row in shown
    ]
    if tenant_id is None:
        at_endpoints = list_budgets(resources.database, resources.ledger, OPERATOR, PageOrder(MOST_ITEMS))[0]
        figures += [_Figures((OPERATOR_NAME,), at_endpoints, {})] if at_endpoints else []
    registry, whole = CollectorRegistry(), tenant_id is None or len(tenants) == 1
    registry.register(_Snapshot(figures, ("tenant",) if tenant_id is None else (), explainer, whole))
    return whole, generate_latest(registry)


class _Snapshot(Collector):
    """Metrics of one moment."""

    def __init__(
        self, figures: list[_Figures], labels: tuple[str, ...], explainer: ExplainerState, whole: bool
    ) -> None:
        self._figures, self._labels, self._explainer, self._whole = figures, labels, explainer, whole

    def collect(self) -> Iterator[Metric]:
        for counter in BUDGET_COUNTERS:
            name, what = f"recourse_budget_{counter}", f"Queries of the present period: {counter}"
            gauge = GaugeMetricFamily(name, what, labels=(*self._labels, "ensemble", "period"))
            for figures in self._figures:
                for named in figures.balances:
                    labels = (*figures.labels, named.ensemble, named.balance.period_key)
                    gauge.add_metric(labels, getattr(named.balance, counter))
            yield gauge
        yield from self._collect_jobs()
        state = self._explainer
        yield GaugeMetricFamily("recourse_explainer_ready", "Whether an explainer answers", value=state.ready)
        yield GaugeMetricFamily("recourse_explainer_workers", "Explainers that answer", value=state.workers)
        if self._whole:
            yield GaugeMetricFamily("recourse_explainer_versions", "Model versions in memory", value=state.versions)
            yield GaugeMetricFamily("recourse_explainer_queued", "Records that wait", value=state.queued_records)

    def _collect_jobs(self) -> Iterator[Metric]:
        labels = (*self._labels, "state")
        count = GaugeMetricFamily("recourse_jobs", "Training jobs by state", labels=labels)
        seconds = CounterMetricFamily("recourse_job_seconds", "Time that finished jobs took", labels=labels)
        for figures in self._figures:
            for state in JobState:
                row = figures.jobs.get(state)
                count.add_metric((*figures.labels, state), 0 if row is None else row.jobs)
                if state not in (JobState.QUEUED, JobState.RUNNING):
                    seconds.add_metric((*figures.labels, state), 0.0 if row is None else float(row.seconds))
        yield count
        yield seconds
