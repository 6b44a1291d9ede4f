"""Setting the dial: the price at which answers cost what they may cost, and no more than they need."""

import math

import numpy as np

from models.candidates import landing_points, look_at
from models.constraints import Constraints, compile_constraints
from models.frontier import PRICES
from models.matrix import Records
from models.model import RecourseModel
from models.scoring import Targets
from models.search import SearchConfig
from models.selection import best_at_price

HALVINGS = 12
ENOUGH = 0.995
"""Where the mean expected agreement is this high, more cost would buy nothing."""


def price_within(
    model: RecourseModel, records: Records, target: Targets, budget: float, seed: int, spare: float = 0.0
) -> float:
    """The least price at which the answers to records (n, F) cost no more than the budget in the mean

    Where a higher price, which makes them cheaper, still has agreement enough, that one. Halved in its logarithm.
    spare: so many standard errors of the mean are left of the budget, for other records than these
    """
    config = SearchConfig()
    frozen = frozenset(model.encoder.schema.names) - model.flowing
    allowed = compile_constraints(model.encoder.schema, Constraints(immutable=frozen), records)
    points = landing_points(model, target, allowed, config.candidates, seed)
    low, high = math.log(min(PRICES) / 4), math.log(max(PRICES) * 4)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        prices = np.full(len(records), math.exp(middle))
        candidates = look_at(model, points, target, allowed, prices)
        answers = best_at_price(model, candidates, target, allowed, prices, 0.0, config.polish_rounds)
        paid = answers.cost.mean() + spare * answers.cost.std() / math.sqrt(len(records))
        generous = paid > budget or answers.agreement.mean() >= ENOUGH
        low, high = (middle, high) if generous else (low, middle)
    return math.exp(high)
