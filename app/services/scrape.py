"""What the database knows, as metrics, read when they are scraped: budgets and jobs of the key's own tenant."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.db import job_counts
from app.db.service_tables import JobState
from app.db.types import AnyRow
from app.explaining.protocol import ExplainerState
from app.resources import Resources
from app.services.budgets import NamedBalance, list_budgets
from app.services.paging import MOST_ITEMS, PageOrder

BUDGET_COUNTERS = ("limit", "used", "reserved", "remaining")


def scrape(resources: Resources, tenant_id: int, explainer: ExplainerState) -> bytes:
    """The text that Prometheus reads."""
    balances, _ = list_budgets(resources.database, resources.ledger, tenant_id, PageOrder(MOST_ITEMS))
    with resources.database.reading() as connection:
        jobs = job_counts.by_state(connection, tenant_id)
    registry = CollectorRegistry()
    registry.register(_Snapshot(balances, jobs, explainer))
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
