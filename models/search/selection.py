"""Choosing among candidates (paper, Algorithm 2): at one cost weight, and diverse answers."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Targets
from ..model import RecourseModel
from ..space.feasible import FeasibleSet
from .candidates import Candidates
from .local_search import objective, polish
from .scoring import LogitGradient
from .sparse import sparse_candidates

REACHED = 1e3
"""No objective is as large: a candidate of enough agreement comes before every other one."""


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
    """The candidate (n, 1) of the highest objective at cost_weight (n,), after `rounds` of local search

    The local search starts from the best `starts` of candidates (n, c). One of less expected agreement than the least
    is chosen only where there is no other. gradients: those at all candidates (n * c), if they are known already.
    """

    def preference(some: Candidates) -> Floats:
        """(n, c): the objective, with what has enough agreement before what has not"""
        value = objective(some, feasible, cost_weight, local.change_penalty)
        return value + REACHED * (some.agreement >= min_expected_agreement)

    local = model.config.search.local
    if feasible.most is not None or feasible.rules is not None:
        candidates, gradients = sparse_candidates(model, candidates, target, feasible, cost_weight), None
        rounds = max(rounds, local.sparse_rounds) if rounds else 0
    order = np.argsort(-preference(candidates), axis=1, kind="stable")
    polished: Candidates | None = None
    for position in range(min(starts, order.shape[1])):
        start = candidates.take(order[:, position : position + 1])
        place = np.arange(len(order)) * order.shape[1] + order[:, position]
        known = None if gradients is None else gradients.at(place)
        result = polish(model, start, target, feasible, cost_weight, rounds, min_expected_agreement, known)
        polished = result if polished is None else polished.beside(result)
    if polished is None:
        return candidates.take(order[:, :1])
    return polished.take(preference(polished).argmax(axis=1)[:, None])


def freeze_main_change(
    model: RecourseModel, answer: Candidates, feasible: FeasibleSet
) -> tuple[FeasibleSet, NDArray[np.bool_]]:
    """The feasible set with each answer's (n, 1) most costly change frozen; and where that is possible (n,)

    So the next answer differs from those before in the features that it changes (METHOD.md, section 6.5).
    """
    encoder = model.encoder
    moved = (answer.points[:, 0] - encoder.encode(feasible.origin)) ** 2
    share = np.stack([moved[:, where].sum(axis=1) for where in encoder.columns], axis=1)
    main = share.argmax(axis=1)
    rows = np.arange(len(main))
    possible = (share[rows, main] > 0) & feasible.own_fits()[rows, main]
    mask = np.zeros(share.shape, dtype=np.bool_)
    mask[rows[possible], main[possible]] = True
    return feasible.freeze(mask), possible
