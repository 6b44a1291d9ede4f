"""Prometheus metrics of one process; what the database knows is read when it is scraped (app/api/operations.py)."""

from prometheus_client import CollectorRegistry, Counter, Histogram

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
