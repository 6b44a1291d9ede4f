"""What a training request comes to: the method's settings, and how many queries it may make."""

from dataclasses import dataclass, replace

from app.training.request import TrainRequest
from models.config import PRESETS, Config
from models.effort import afford, scale

CHECKS = 50
"""Held-out answers that are put to the ensemble at the end, so that the version's figures are measured ones."""
CHECK_SHARE = 10
"""Of a limit that the user sets, at most one in so many queries goes into that."""
VERIFIED_QUERIES = 10
"""What verified search may ask for each record that is compared with the oracle,"""
ORACLE_QUERIES = 100
"""and what the oracle may: nearly as many as it asks on the loans when nothing bounds it."""
QUERIES_EACH = 1 + VERIFIED_QUERIES + ORACLE_QUERIES


@dataclass(frozen=True, slots=True)
class Plan:
    """At most `queries` records are bought to learn from, `checks` to measure with, and more for `oracle_records`.

    skipped says why there is no comparison with the oracle although one was asked for.
    """

    config: Config
    queries: int
    checks: int
    oracle_records: int
    skipped: str | None = None

    @property
    def total(self) -> int:
        return self.queries + self.checks + self.oracle_records * QUERIES_EACH

    def without_oracle(self, reason: str) -> "Plan":
        return replace(self, oracle_records=0, skipped=reason)


def make_plan(request: TrainRequest, device: str) -> Plan:
    config = scale(PRESETS[request.preset](), request.effort)
    config = replace(config, device=device, top_features=request.top_features)
    if request.queries is None:
        return Plan(config, config.queries, CHECKS, request.compared)
    checks = min(CHECKS, request.queries // CHECK_SHARE)
    left = request.queries - checks
    compared = request.compared * QUERIES_EACH
    if left - compared >= config.queries:
        queries = left - compared
        return Plan(afford(config, queries), queries, checks, request.compared)
    plan = Plan(afford(config, left), left, checks, 0)
    if not request.compared:
        return plan
    fact = f"{request.compared} records would take {compared} of the job's {request.queries} queries"
    return plan.without_oracle(f"{fact}; allow it {config.queries + CHECKS + compared}, or compare fewer records")
