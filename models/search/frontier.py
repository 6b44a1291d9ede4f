"""The cost-validity frontier: what each setting of the dial costs, measured on the validation split without a query.

Setting the dial: the price at which answers cost what they may cost, and no more than they need.
"""

import math

import numpy as np

from ..arrays import Records, Targets
from ..config import SearchConfig
from ..model import FrontierPoint, RecourseModel
from ..space.constraints import Constraints, compile_constraints
from .candidates import endpoints, score_endpoints
from .local_search import objective, polish
from .scoring import score_points
from .selection import best_at_cost_weight

COST_WEIGHTS = tuple(float(cost_weight) for cost_weight in np.geomspace(0.005, 1.5, 14))
RECORDS = 300
REFUSED = 0.15
"""A record clearly needs a change where the expected agreement with the target is at most this."""
LEAST = 20
"""With fewer such records than this, all are taken."""
CANDIDATES = 30


def measure_frontier(model: RecourseModel, records: Records, labels: Targets, seed: int) -> tuple[FrontierPoint, ...]:
    """records (n, F), labels (n,) -> for each price, the mean cost and expected agreement of the answers"""
    random = np.random.default_rng(seed)
    classes = len(model.classes)
    target = (labels + random.integers(1, classes, size=len(records))) % classes
    own = score_points(model, model.encoder.encode(records), target).agreement
    order = random.permutation(len(records))
    refused = order[own[order] <= REFUSED]
    rows = (refused if len(refused) >= LEAST else order)[:RECORDS]
    target = target[rows]
    constraints = Constraints(immutable=frozenset(model.encoder.schema.names) - model.generated_features)
    feasible = compile_constraints(model.encoder.schema, constraints, records[rows])
    ends = endpoints(model, target, feasible, CANDIDATES, seed)
    points = []
    for cost_weight in COST_WEIGHTS:
        cost_weights = np.full(len(rows), cost_weight)
        candidates = score_endpoints(model, ends, target, feasible, cost_weights)
        best = objective(candidates, feasible.origin, cost_weights).argmax(axis=1)[:, None]
        answer = polish(model, candidates.take(best), target, feasible, cost_weights, 4)
        points.append(FrontierPoint(cost_weight, float(answer.cost.mean()), float(answer.agreement.mean())))
    return tuple(points)


HALVINGS = 12
ENOUGH = 0.995
"""Where the mean expected agreement is this high, more cost would buy nothing."""


def cost_weight_within(
    model: RecourseModel, records: Records, target: Targets, budget: float, seed: int, standard_errors: float = 0.0
) -> float:
    """The least price at which the answers to records (n, F) cost no more than the budget in the mean

    Where a higher price, which makes them cheaper, still has agreement enough, that one. Halved in its logarithm.
    spare: so many standard errors of the mean are left of the budget, for other records than these
    """
    config = SearchConfig()
    frozen = frozenset(model.encoder.schema.names) - model.generated_features
    feasible = compile_constraints(model.encoder.schema, Constraints(immutable=frozen), records)
    points = endpoints(model, target, feasible, config.candidates, seed)
    low, high = math.log(min(COST_WEIGHTS) / 4), math.log(max(COST_WEIGHTS) * 4)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        cost_weights = np.full(len(records), math.exp(middle))
        candidates = score_endpoints(model, points, target, feasible, cost_weights)
        answers = best_at_cost_weight(model, candidates, target, feasible, cost_weights, 0.0, config.polish_rounds)
        paid = answers.cost.mean() + standard_errors * answers.cost.std() / math.sqrt(len(records))
        generous = paid > budget or answers.agreement.mean() >= ENOUGH
        low, high = (middle, high) if generous else (low, middle)
    return math.exp(high)
