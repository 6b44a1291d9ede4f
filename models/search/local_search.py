"""Local search: small exact changes to a candidate that raise its objective (METHOD.md, section 6.4).

The objective is the expected agreement, less cost_weight * cost, less a little for each changed feature. Moves change
one feature: back to the applicant's own value, part of the way back, a little further, another category. All moves are
ranked by a first-order estimate (cost exactly, agreement by its gradient). The best few are then scored, with the best
moves of several features together and with linearised steps of all numbers at once; the best of all is taken where it
gains. This is what shrinks an answer: features whose change is not needed go back.
"""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Encoded, Floats, Records, Targets
from ..model import RecourseModel
from ..space.encoding import Encoder
from ..space.feasible import FeasibleSet
from .candidates import Candidates, measure, measure_few
from .moves import MoveContext, MoveSet, effects, permitted, proposals, same
from .scoring import LogitGradient, score_with_gradients


def objective(candidates: Candidates, origin: Records, cost_weight: Floats, change_penalty: float) -> Floats:
    """Expected agreement - cost_weight * cost - change_penalty * changed features.

    origin (n, F), cost_weight (n,) -> (n, c)
    """
    changed = count_changes(candidates.records, origin[:, None])
    return candidates.agreement - cost_weight[:, None] * candidates.cost - change_penalty * changed


def count_changes(records: Records, origin: Records) -> NDArray[np.intp]:
    """How many features differ, missing equal to missing.   (..., F), (..., F) -> (...)"""
    return np.asarray(np.count_nonzero(~same(records, origin), axis=-1))


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
        moved, ahead = _measured(model, moves, wanted, context.origin_point, last=turn + 1 == rounds)
        before = objective(rows, context.origin, paid, config.change_penalty)
        sinks = (moved.agreement < min_expected_agreement) & (rows.agreement >= min_expected_agreement)
        after = np.where(sinks, -np.inf, objective(moved, context.origin, paid, config.change_penalty))
        best = after.argmax(axis=1)
        gains = np.flatnonzero(after[np.arange(len(best)), best] > before[:, 0] + config.least_gain)
        active, best = active[gains], best[gains]
        current = current.replace_rows(active, moved.take_rows(gains).take(best[:, None]))
        known = None if ahead is None else ahead.at(gains * moved.cost.shape[1] + best)
        context = context if len(gains) == len(wanted) else context.rows(gains)
    return current


def _measured(
    model: RecourseModel, records: Records, target: Targets, origin: Encoded, last: bool
) -> tuple[Candidates, LogitGradient | None]:
    """The moves (n, c, F) measured; for few records with the gradients there, which save the next round a pass."""
    return (measure(model, records, target, origin), None) if last else measure_few(model, records, target, origin)


def moves_of(model: RecourseModel, best: Candidates, target: Targets, feasible: FeasibleSet) -> Candidates:
    """The most promising single-feature moves from best (n, 1), scored (n, c); an impossible one stays put."""
    config = model.config.search.local
    context = MoveContext.of(model.encoder, feasible, config)
    cost_weight = np.full(len(target), config.shown_cost_weight)
    gradients = score_with_gradients(model, best.points[:, 0], target)[1]
    values, estimate = _ranked(model, context, best, cost_weight, gradients)
    moves = _alone(context.moves, best.records[:, 0], values, estimate, config.shown)
    return measure(model, moves, target, context.origin_point)


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
    return measure(model, moved, target, context.origin_point)


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
    alone = _alone(context.moves, current, values, estimate, context.config.scored)
    together = _together(context, current, values, estimate, standing)
    moves = [alone, together]
    if model.config.search.use_linearised_steps:
        at, paid = rows.points[:, 0], rows.cost[:, 0]
        moves.append(linearised_steps(model.encoder, context, current, at, paid, gradients, cost_weight))
    return np.concatenate(moves, axis=1)


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


def _alone(moves: MoveSet, current: Records, values: Records, estimate: Floats, most: int) -> Records:
    """current (n, F), values and estimate (n, M) of each move -> the best moves, `most` at the most (n, s, F)"""
    count = min(most, estimate.shape[1])
    top = np.argsort(-estimate, axis=1, kind="stable")[:, :count]
    row, feature = np.arange(len(top))[:, None], moves.feature[top]
    new = np.where(np.isfinite(estimate[row, top]), values[row, top], current[row, feature])
    moved = np.repeat(current[:, None], count, axis=1)
    moved[row, np.arange(count), feature] = new
    return moved


def _together(context: MoveContext, current: Records, values: Records, estimate: Floats, standing: Floats) -> Records:
    """The best moves of the most promising features at once (n, len(together), F); standing (n,) is to be beaten"""
    moves, counts = context.moves, np.array(context.config.together)
    each, features = estimate[:, moves.of], moves.features
    best = each.argmax(axis=2)
    row, position = np.arange(len(current))[:, None], np.arange(len(features))
    gain = each[row, position, best] - standing[:, None]
    rank = np.argsort(np.argsort(-gain, axis=1, kind="stable"), axis=1, kind="stable")
    rank = np.where(gain > 0, rank, counts.max())
    taken = rank[:, None] < counts[:, None]
    moved = np.repeat(current[:, None], len(counts), axis=1)
    new = values[row, moves.of[position, best]][:, None]
    moved[:, :, features] = np.where(taken, new, current[:, None, features])
    return moved


FLAT = 1e-12
"""A squared gradient of less is none."""


def linearised_steps(
    encoder: Encoder,
    context: MoveContext,
    current: Records,
    at: Encoded,
    paid: Floats,
    gradients: LogitGradient,
    cost_weight: Floats,
) -> Records:
    """current (n, F) at points (n, D), whose cost is paid (n,) -> where the steps lead (n, 2 * s, F), within the limits

    s is the number of `step_shares`. Half of the steps move the numbers that are changed already, half all that may
    change. The logit of the agreement is taken to be linear, so the nearest point that reaches a logit lies along its
    gradient from the origin: the first-order search for the nearest point of a limit state (Hasofer and Lind).
    """
    moves, shares = context.moves, np.array(context.config.step_shares)
    chosen = moves.numbers
    if not len(chosen):
        return np.empty((len(current), 0, current.shape[1]))
    numbers, columns = moves.feature[chosen], moves.first[chosen]
    # Taken, not indexed: sums along the last axis must not depend on the layout that a batch gives it.
    here, spot = current.take(numbers, axis=1), at.take(columns, axis=1)
    origin, slope = context.origin_point.take(columns, axis=1), gradients.gradient.take(columns, axis=1)
    free = context.opened.take(chosen, axis=1) & ~np.isnan(here)
    masks = np.stack([free & (spot != origin), free], axis=1)
    logits = np.array(context.config.step_logits)
    far = _distance(masks, slope[:, None], (origin - spot)[:, None], gradients.logit, paid, cost_weight, logits)
    way = (origin - spot)[:, None] + far * slope[:, None]
    points = spot[:, None, None] + shares[:, None] * way[:, :, None]
    values = encoder.mean[numbers] + encoder.scale[numbers] * points
    lower, upper = context.lower.take(chosen, axis=1)[:, None, None], context.upper.take(chosen, axis=1)[:, None, None]
    values = moves.grid.at(chosen).snap(np.minimum(np.maximum(values, lower), upper))
    values = np.where(masks[:, :, None], values, here[:, None, None])
    stepped = np.repeat(current[:, None], masks.shape[1] * len(shares), axis=1)
    stepped[:, :, numbers] = values.reshape(len(current), -1, len(numbers))
    return stepped


def _distance(
    masks: NDArray[np.bool_],
    slope: Floats,
    back: Floats,
    logit: Floats,
    paid: Floats,
    cost_weight: Floats,
    logits: Floats,
) -> Floats:
    """masks (n, s, P), slope and the way back to the origin (n, 1, P) -> how far from there, in slopes (n, s, 1)

    The best of the distances that would bring the logit to `logits` (L,)
    """
    sums = (np.stack([slope * slope, slope * back, back * back]) * masks).sum(axis=3, keepdims=True)
    squares, start = sums[0], logit[:, None, None] + sums[1]
    fixed = np.maximum((paid * paid)[:, None, None] - sums[2], 0.0)
    far = np.maximum((logits - start) / np.maximum(squares, FLAT), 0.0)
    agreement = 1.0 / (1.0 + np.exp(-(start + far * squares)))
    value = agreement - cost_weight[:, None, None] * np.sqrt(fixed + far * far * squares)
    return np.take_along_axis(far, value.argmax(axis=2)[..., None], axis=2)
