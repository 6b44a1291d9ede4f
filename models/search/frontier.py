"""The cost-validity frontier: what the answers at each cost weight cost, and how many votes they are expected to have.

METHOD.md, section 6.2. Measured on the validation split without a query. The other way round, the cost weight at which
answers cost what they may cost, and no more than they need.
"""

import math

import numpy as np

from ..arrays import Records, Targets
from ..config import SearchConfig
from ..datasets.dataset import Labelled
from ..model import FrontierPoint, RecourseModel
from .candidates import generate
from .local_search import objective, polish
from .scoring import score_points
from .selection import best_at_cost_weight


def measure_frontier(model: RecourseModel, split: Labelled, seed: int) -> tuple[FrontierPoint, ...]:
    """For each cost weight, the mean cost and expected agreement of the answers to records of the validation split"""
    records, labels = split.records, split.labels
    config, penalty = model.config.search.frontier, model.config.search.local.change_penalty
    random = np.random.default_rng(seed)
    classes = len(model.classes)
    target = (labels + random.integers(1, classes, size=len(records))) % classes
    expected = score_points(model, model.encoder.encode(records), target).agreement
    order = random.permutation(len(records))
    refused = order[expected[order] <= config.refused]
    rows = (refused if len(refused) >= config.least else order)[: config.records]
    target, feasible = target[rows], model.feasible(records[rows])
    points, candidates = [], generate(model, target, feasible, config.candidates, seed)
    for weight in config.cost_weights:
        weights = np.full(len(rows), weight)
        best = objective(candidates, feasible, weights, penalty).argmax(axis=1)[:, None]
        answer = polish(model, candidates.take(best), target, feasible, weights, config.rounds)
        points.append(FrontierPoint(weight, float(answer.cost.mean()), float(answer.agreement.mean())))
    return tuple(points)


def cost_weight_within(
    model: RecourseModel, records: Records, target: Targets, budget: float, seed: int, standard_errors: float = 0.0
) -> float:
    """The least cost weight at which the answers to records (n, F) cost no more than the budget in the mean

    Where a higher weight, which makes them cheaper, still has agreement enough, that one. Bisected in its logarithm.
    standard_errors: so many standard errors of the mean cost stay below the budget, for other records than these
    """
    search, config = SearchConfig(), model.config.search.frontier
    feasible = model.feasible(records)
    candidates = generate(model, target, feasible, search.candidates, seed)
    low, high = math.log(min(config.cost_weights) / 4), math.log(max(config.cost_weights) * 4)
    for _ in range(config.halvings):
        middle = (low + high) / 2
        weights = np.full(len(records), math.exp(middle))
        answers = best_at_cost_weight(model, candidates, target, feasible, weights, 0.0, search.polish_rounds)
        paid = answers.cost.mean() + standard_errors * answers.cost.std() / math.sqrt(len(records))
        generous = paid > budget or answers.agreement.mean() >= config.enough
        low, high = (middle, high) if generous else (low, middle)
    return math.exp(high)
