"""Prometheus metrics that a process counts: of requests and queries (`Metrics`), of an explainer (`BatchMetrics`).

What the database knows is read when Prometheus asks (app/api/operations.py).
"""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch, for the metrics; evaluations: of the velocity field, counted once a path."""

    records: int
    orders: int
    seconds: float
    evaluations: int


DURATION_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """A registry of its own, so that two services in one process do not meet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Histogram(
            "recourse_request_seconds",
            "Duration of requests by route template",
            ("method", "route", "status"),
            buckets=DURATION_BUCKETS,
            registry=self.registry,
        )
        self.queries = Counter(
            "recourse_blackbox_queries",
            "Records put to a black box by way of the API, by outcome",
            ("outcome",),
            registry=self.registry,
        )

    def count_queries(self, charged: int, reused: int) -> None:
        self.queries.labels("charged").inc(charged)
        self.queries.labels("reused").inc(reused)

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).observe(seconds)


RECORD_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
SECOND_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class BatchMetrics:
    """Told of every batch."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._records = Histogram(
            "recourse_batch_records", "Records searched together", buckets=RECORD_BUCKETS, registry=registry
        )
        self._seconds = Histogram(
            "recourse_batch_seconds", "Duration of a search", buckets=SECOND_BUCKETS, registry=registry
        )
        self._orders = Counter("recourse_batch_orders", "Orders that were searched", registry=registry)
        self._evaluations = Counter(
            "recourse_ode_evaluations", "Evaluations of the velocity field, times paths", registry=registry
        )
        self._queries = Counter(
            "recourse_search_queries", "Records put to black boxes, by outcome", ("outcome",), registry=registry
        )
        self._queued = Gauge("recourse_explain_pending_records", "Records asked for, not answered", registry=registry)

    def observe(self, report: BatchReport) -> None:
        self._records.observe(report.records)
        self._seconds.observe(report.seconds)
        self._orders.inc(report.orders)
        self._evaluations.inc(report.evaluations)

    def count_queries(self, charged: int, reused: int) -> None:
        self._queries.labels("charged").inc(charged)
        self._queries.labels("reused").inc(reused)

    def watch_queue(self, pending: Callable[[], float]) -> None:
        """Read when the metrics are."""
        self._queued.set_function(pending)
