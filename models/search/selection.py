"""Choosing among candidates: at a price, and in a ladder from cheap to robust."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Targets
from ..model import RecourseModel
from ..space.feasible import FeasibleSet
from .candidates import Candidates
from .local_search import objective, polish
from .scoring import LogitGradient

PATH_WEIGHTS = tuple(float(cost_weight) for cost_weight in np.geomspace(0.6, 0.004, 8))
"""The prices of the rungs that a verified search climbs."""


def best_at_cost_weight(
    model: RecourseModel,
    candidates: Candidates,
    target: Targets,
    feasible: FeasibleSet,
    cost_weight: Floats,
    min_expected_agreement: float,
    rounds: int,
    starts: int = 1,
    gradients: LogitGradient | None = None,
) -> Candidates:
    """The polished candidate (n, 1) of most worth at price (n,); one below the floor only where there is none above

    slopes: those at all candidates (n * c), if they are known already.
    """
    order = np.argsort(-_preference(candidates, feasible, cost_weight, min_expected_agreement), axis=1, kind="stable")
    polished: Candidates | None = None
    for position in range(min(starts, order.shape[1])):
        start = candidates.take(order[:, position : position + 1])
        place = np.arange(len(order)) * order.shape[1] + order[:, position]
        known = None if gradients is None else gradients.at(place)
        result = polish(model, start, target, feasible, cost_weight, rounds, min_expected_agreement, known)
        polished = result if polished is None else polished.beside(result)
    if polished is None:
        return candidates.take(order[:, :1])
    return polished.take(_preference(polished, feasible, cost_weight, min_expected_agreement).argmax(axis=1)[:, None])


def _preference(
    candidates: Candidates, feasible: FeasibleSet, cost_weight: Floats, min_expected_agreement: float
) -> Floats:
    """Worth (n, c), with whatever lies above the floor before whatever does not."""
    return objective(candidates, feasible.origin, cost_weight) + 1e3 * (candidates.agreement >= min_expected_agreement)


def weight_path(
    model: RecourseModel, candidates: Candidates, target: Targets, feasible: FeasibleSet, rounds: int
) -> Candidates:
    """One polished candidate at each price of LADDER, sorted by expected agreement, least first (n, 8)."""
    count, levels = len(candidates.cost), len(PATH_WEIGHTS)
    cost_weights = np.tile(np.array(PATH_WEIGHTS), (count, 1))
    choices = [objective(candidates, feasible.origin, weights).argmax(axis=1) for weights in cost_weights.T]
    best = np.stack(choices, axis=1)
    flat = candidates.take(best).flatten()
    owner = np.repeat(np.arange(count), levels)
    polished = polish(model, flat, target[owner], feasible.rows(owner), cost_weights.reshape(-1), rounds)
    path = polished.unflatten(count)
    return path.take(np.argsort(path.agreement, axis=1, kind="stable"))


def freeze_main_change(
    model: RecourseModel, answer: Candidates, feasible: FeasibleSet
) -> tuple[FeasibleSet, NDArray[np.bool_]]:
    """The constraints with each answer's (n, 1) most costly change forbidden; and where that is possible (n,)."""
    encoder = model.encoder
    moved = (answer.points[:, 0] - encoder.encode(feasible.origin)) ** 2
    share = np.stack([moved[:, where].sum(axis=1) for where in encoder.columns], axis=1)
    main = share.argmax(axis=1)
    rows = np.arange(len(main))
    possible = (share[rows, main] > 0) & feasible.own_fits()[rows, main]
    mask = np.zeros(share.shape, dtype=np.bool_)
    mask[rows[possible], main[possible]] = True
    return feasible.freeze(mask), possible
