"""Choosing among candidates: at a price, and in a ladder from cheap to robust."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Targets
from ..model import RecourseModel
from ..space.feasible import Allowed
from .candidates import Candidates
from .local_search import polish, worth
from .scoring import Slopes

LADDER = tuple(float(price) for price in np.geomspace(0.6, 0.004, 8))
"""The prices of the rungs that a verified search climbs."""


def best_at_price(
    model: RecourseModel,
    candidates: Candidates,
    target: Targets,
    allowed: Allowed,
    price: Floats,
    floor: float,
    rounds: int,
    starts: int = 1,
    slopes: Slopes | None = None,
) -> Candidates:
    """The polished candidate (n, 1) of most worth at price (n,); one below the floor only where there is none above

    slopes: those at all candidates (n * c), if they are known already.
    """
    order = np.argsort(-_preference(candidates, allowed, price, floor), axis=1, kind="stable")
    polished: Candidates | None = None
    for position in range(min(starts, order.shape[1])):
        start = candidates.take(order[:, position : position + 1])
        place = np.arange(len(order)) * order.shape[1] + order[:, position]
        known = None if slopes is None else slopes.at(place)
        result = polish(model, start, target, allowed, price, rounds, floor, known)
        polished = result if polished is None else polished.beside(result)
    if polished is None:
        return candidates.take(order[:, :1])
    return polished.take(_preference(polished, allowed, price, floor).argmax(axis=1)[:, None])


def _preference(candidates: Candidates, allowed: Allowed, price: Floats, floor: float) -> Floats:
    """Worth (n, c), with whatever lies above the floor before whatever does not."""
    return worth(candidates, allowed.origin, price) + 1e3 * (candidates.agreement >= floor)


def ladder(model: RecourseModel, candidates: Candidates, target: Targets, allowed: Allowed, rounds: int) -> Candidates:
    """One polished candidate at each price of LADDER, sorted by expected agreement, least first (n, 8)."""
    count, rungs = len(candidates.cost), len(LADDER)
    prices = np.tile(np.array(LADDER), (count, 1))
    best = np.stack(
        [worth(candidates, allowed.origin, prices[:, rung]).argmax(axis=1) for rung in range(rungs)], axis=1
    )
    flat = candidates.take(best).flatten()
    owner = np.repeat(np.arange(count), rungs)
    polished = polish(model, flat, target[owner], allowed.rows(owner), prices.reshape(-1), rounds)
    climbing = polished.unflatten(count)
    return climbing.take(np.argsort(climbing.agreement, axis=1, kind="stable"))


def freeze_main_change(model: RecourseModel, answer: Candidates, allowed: Allowed) -> tuple[Allowed, NDArray[np.bool_]]:
    """The constraints with each answer's (n, 1) most costly change forbidden; and where that is possible (n,)."""
    encoder = model.encoder
    moved = (answer.points[:, 0] - encoder.encode(allowed.origin)) ** 2
    share = np.stack([moved[:, where].sum(axis=1) for where in encoder.columns], axis=1)
    main = share.argmax(axis=1)
    rows = np.arange(len(main))
    possible = (share[rows, main] > 0) & allowed.own_fits()[rows, main]
    mask = np.zeros(share.shape, dtype=np.bool_)
    mask[rows[possible], main[possible]] = True
    return allowed.freeze(mask), possible
