"""Local search: small exact changes to a candidate that raise its objective (METHOD.md, section 6.4).

The objective is the expected agreement, less cost_weight * cost, less a little for each changed feature. Moves change
one feature: back to the applicant's own value, part of the way back, a little further, another category. All moves are
ranked by a first-order estimate (cost exactly, agreement by its gradient). The best few are then scored, with the best
moves of several features together; the best of all is taken where it gains. This is what shrinks an answer: features
whose change is not needed go back.

Where only so many features may change, an answer that changes more counts for nothing (`sparse_candidates`).
"""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Records, Targets
from ..model import RecourseModel
from ..space.feasible import FeasibleSet, same
from .candidates import Candidates, measure, measure_few
from .moves import MoveContext, MoveSet, changed_features, effects, permitted, proposals
from .scoring import LogitGradient, score_with_gradients


def objective(candidates: Candidates, feasible: FeasibleSet, cost_weight: Floats, change_penalty: float) -> Floats:
    """Expected agreement - cost_weight * cost - change_penalty * changes; -inf for what is not allowed.

    n records, cost_weight (n,) -> (n, c)
    """
    changes = feasible.count_changes(candidates.records)
    value = candidates.agreement - cost_weight[:, None] * candidates.cost - change_penalty * changes
    return np.where(candidates.allowed, value, -np.inf)


def count_changes(records: Records, origin: Records) -> NDArray[np.intp]:
    """How many features differ, missing equal to missing.   (..., F), (..., F) -> (...)"""
    return np.asarray(np.count_nonzero(changed_features(records, origin), axis=-1))


def polish(
    model: RecourseModel,
    start: Candidates,
    target: Targets,
    feasible: FeasibleSet,
    cost_weight: Floats,
    rounds: int,
    min_expected_agreement: float = 0.0,
    known: LogitGradient | None = None,
) -> Candidates:
    """`rounds` of local search from start (n, 1), at cost_weight (n,) -> the best candidate of each (n, 1)

    What has reached min_expected_agreement does not fall below it again. known: the gradients at the start, if they
    are known already.
    """
    current, active = start, np.arange(len(target))
    config = model.config.search.local
    context = MoveContext.of(model.encoder, feasible, config)
    for turn in range(rounds):
        if not len(active) or not len(context.moves.feature):
            break
        rows, wanted, paid = current.take_rows(active), target[active], cost_weight[active]
        moves = _best_moves(model, context, rows, wanted, paid, known)
        moved, ahead = _measured(model, moves, wanted, context, last=turn + 1 == rounds)
        before = objective(rows, context.feasible, paid, config.change_penalty)
        sinks = (moved.agreement < min_expected_agreement) & (rows.agreement >= min_expected_agreement)
        after = np.where(sinks, -np.inf, objective(moved, context.feasible, paid, config.change_penalty))
        best = after.argmax(axis=1)
        gains = np.flatnonzero(after[np.arange(len(best)), best] > before[:, 0] + config.least_gain)
        active, best = active[gains], best[gains]
        current = current.replace_rows(active, moved.take_rows(gains).take(best[:, None]))
        known = None if ahead is None else ahead.at(gains * moved.cost.shape[1] + best)
        context = context if len(gains) == len(wanted) else context.rows(gains)
    return current


def _measured(
    model: RecourseModel, records: Records, target: Targets, context: MoveContext, last: bool
) -> tuple[Candidates, LogitGradient | None]:
    """The moves (n, c, F) measured; for few records with the gradients there, which save the next round a pass."""
    if last:
        return measure(model, records, target, context.feasible, context.origin_point), None
    return measure_few(model, records, target, context.feasible, context.origin_point)


def moves_of(model: RecourseModel, best: Candidates, target: Targets, feasible: FeasibleSet) -> Candidates:
    """The most promising single-feature moves from best (n, 1), scored (n, c); an impossible one stays put."""
    config = model.config.search.local
    context = MoveContext.of(model.encoder, feasible, config)
    cost_weight = np.full(len(target), config.shown_cost_weight)
    gradients = score_with_gradients(model, best.points[:, 0], target)[1]
    values, estimate = _ranked(model, context, best, cost_weight, gradients)
    moves = _alone(context.moves, best.records[:, 0], values, estimate, config.shown)
    return measure(model, moves, target, feasible, context.origin_point)


def best_of_each_feature(model: RecourseModel, best: Candidates, target: Targets, feasible: FeasibleSet) -> Candidates:
    """From best (n, 1), the change of each feature that promises most agreement at any cost, scored (n, P)

    P features may change; of the others there is nothing to tell.
    """
    context = MoveContext.of(model.encoder, feasible, model.config.search.local)
    nothing = np.zeros(len(target))
    if not len(context.moves.features):
        return best.take(np.empty((len(target), 0), dtype=np.intp))
    gradients = score_with_gradients(model, best.points[:, 0], target)[1]
    values, estimate = _ranked(model, context, best, nothing, gradients)
    each, features = estimate[:, context.moves.of], context.moves.features
    row, position = np.arange(len(values))[:, None], np.arange(len(features))
    move = context.moves.of[position, each.argmax(axis=2)]
    moved = np.repeat(best.records, len(features), axis=1)
    better = np.where(np.isfinite(estimate[row, move]), values[row, move], best.records[:, 0, features])
    moved[row, position, features] = better
    return measure(model, moved, target, feasible, context.origin_point)


def _best_moves(
    model: RecourseModel,
    context: MoveContext,
    rows: Candidates,
    target: Targets,
    cost_weight: Floats,
    known: LogitGradient | None,
) -> Records:
    """The most promising moves of each record, alone and together (n, c, F); `known`: the gradients at rows"""
    gradients = known or score_with_gradients(model, rows.points[:, 0], target)[1]
    values, estimate = _ranked(model, context, rows, cost_weight, gradients)
    current, standing = rows.records[:, 0], rows.agreement[:, 0] - cost_weight * rows.cost[:, 0]
    room, changed = _room(context, current), changed_features(current, context.feasible.origin)
    fits = changed[:, context.moves.feature] | (room > 0)[:, None]
    alone = _alone(context.moves, current, values, np.where(fits, estimate, -np.inf), context.config.scored)
    together = _together(context, current, values, estimate, standing, changed, room)
    return np.concatenate([alone, together], axis=1)


def _ranked(
    model: RecourseModel, context: MoveContext, rows: Candidates, cost_weight: Floats, gradients: LogitGradient
) -> tuple[Records, Floats]:
    """What each move leads to, and a first-order estimate of its objective, -inf if not allowed; both (n, M)"""
    here, at = rows.records[:, 0][:, context.moves.feature], rows.points[:, 0]
    values = proposals(model.encoder, context, here)
    shift, squared = effects(model.encoder, context, here, values, at, gradients.gradient)
    agreement = 1.0 / (1.0 + np.exp(-(gradients.logit[:, None] + shift)))
    estimate = agreement - cost_weight[:, None] * np.sqrt(np.maximum(rows.cost**2 + squared, 0.0))
    put_back = same(values, context.origin_value)
    estimate = np.where(put_back, estimate + context.config.change_penalty, estimate)
    return values, np.where(permitted(context, values, here), estimate, -np.inf)


def _room(context: MoveContext, current: Records) -> NDArray[np.intp]:
    """How many more features of current (n, F) may change (n,)"""
    if context.feasible.most is None:
        return np.full(len(current), current.shape[1])
    return context.feasible.most - context.feasible.count_changes(current[:, None])[:, 0]


def _alone(moves: MoveSet, current: Records, values: Records, estimate: Floats, most: int) -> Records:
    """current (n, F), values and estimate (n, M) of each move -> the best moves, `most` at the most (n, s, F)"""
    count = min(most, estimate.shape[1])
    top = np.argsort(-estimate, axis=1, kind="stable")[:, :count]
    row, feature = np.arange(len(top))[:, None], moves.feature[top]
    new = np.where(np.isfinite(estimate[row, top]), values[row, top], current[row, feature])
    moved = np.repeat(current[:, None], count, axis=1)
    moved[row, np.arange(count), feature] = new
    return moved


def _together(
    context: MoveContext,
    current: Records,
    values: Records,
    estimate: Floats,
    standing: Floats,
    changed: NDArray[np.bool_],
    room: NDArray[np.intp],
) -> Records:
    """The best moves of the most promising features at once (n, len(together), F); standing (n,) is to be beaten

    Of features that are not changed yet (n, F), only the `room` (n,) best.
    """
    moves, counts = context.moves, np.array(context.config.together)
    each, features = estimate[:, moves.of], moves.features
    best = each.argmax(axis=2)
    row, position = np.arange(len(current))[:, None], np.arange(len(features))
    gain = each[row, position, best] - standing[:, None]
    rank = _rank(gain)
    rank = np.where(gain > 0, rank, counts.max())
    new = ~changed[:, features]
    taken = (rank[:, None] < counts[:, None]) & (~new | (_rank(np.where(new, gain, -np.inf)) < room[:, None]))[:, None]
    moved = np.repeat(current[:, None], len(counts), axis=1)
    moved[:, :, features] = np.where(taken, values[row, moves.of[position, best]][:, None], current[:, None, features])
    return moved


def _rank(values: Floats) -> NDArray[np.intp]:
    """values (n, P) -> the place of each, 0 for the largest"""
    rank: NDArray[np.intp] = np.argsort(np.argsort(-values, axis=1, kind="stable"), axis=1, kind="stable")
    return rank
