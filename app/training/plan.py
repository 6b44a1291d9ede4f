"""What a training request comes to: the method's settings, and how many queries it may make."""

from dataclasses import dataclass, replace

from app.training.request import TrainRequest
from models.config import PRESETS, Config
from models.effort import afford, scale

CHECKS = 50
"""Held-out answers that are put to the ensemble at the end, so that the version's figures are measured ones."""
CHECK_SHARE = 10
"""Of a limit that the user sets, at most one in so many queries goes into that."""


@dataclass(frozen=True, slots=True)
class Plan:
    """At most `queries` records are bought to learn from, and `checks` more to measure with."""

    config: Config
    queries: int
    checks: int

    @property
    def total(self) -> int:
        return self.queries + self.checks


def make_plan(request: TrainRequest, device: str) -> Plan:
    config = scale(PRESETS[request.preset](), request.effort)
    config = replace(config, device=device, top_features=request.top_features)
    if request.queries is None:
        return Plan(config, config.queries, CHECKS)
    checks = min(CHECKS, request.queries // CHECK_SHARE)
    queries = request.queries - checks
    return Plan(afford(config, queries), queries, checks)
