"""The cost-validity frontier: what each setting of the dial costs, measured on the validation split without a query."""

import numpy as np

from models.candidates import landing_points, look_at
from models.constraints import Constraints, compile_constraints
from models.matrix import Records
from models.model import FrontierPoint, RecourseModel
from models.polishing import polish, worth
from models.scoring import Targets, score_points

PRICES = tuple(float(price) for price in np.geomspace(0.005, 1.5, 14))
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
    constraints = Constraints(immutable=frozenset(model.encoder.schema.names) - model.flowing)
    allowed = compile_constraints(model.encoder.schema, constraints, records[rows])
    landings = landing_points(model, target, allowed, CANDIDATES, seed)
    points = []
    for price in PRICES:
        prices = np.full(len(rows), price)
        candidates = look_at(model, landings, target, allowed, prices)
        best = worth(candidates, allowed.origin, prices).argmax(axis=1)[:, None]
        answer = polish(model, candidates.take(best), target, allowed, prices, 4)
        points.append(FrontierPoint(price, float(answer.cost.mean()), float(answer.agreement.mean())))
    return tuple(points)
