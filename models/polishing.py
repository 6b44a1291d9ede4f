"""Polishing: small exact changes to a candidate that make it worth more at a given price.

The worth of a candidate is its expected agreement, less price x cost, less a little for each changed feature. Moves
change one feature: back to the applicant's own value, part of the way back, a little further, another category. All
moves are ranked by a first-order estimate (cost exactly, agreement by its gradient); the best few are then scored, and
the best one is taken where it gains. This is what shrinks an answer: features whose change is not needed go back.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.allowed import Allowed
from models.candidates import Candidates, Floats, measure
from models.encoding import Encoder
from models.grid import snap
from models.matrix import Encoded, Records
from models.model import RecourseModel
from models.scoring import Targets, logit_and_gradient

CHANGE_PRICE = 0.004
"""What one changed feature costs, in agreement: a change that gains less than this is put back."""
SCORED = 16
"""How many of the ranked moves are scored exactly."""
WAYS = (0.5, 0.8, 1.2)
"""A number goes this share of its way from the applicant's value."""
MOVE_PRICE = 0.3
"""The price at which moves are ranked for those who only look at them."""
STRIDE = 0.3
"""A number also goes this many standard deviations up or down from where it is."""


def worth(candidates: Candidates, origin: Records, price: Floats) -> Floats:
    """origin (n, F), price (n,) -> (n, c)"""
    changed = count_changes(candidates.records, origin[:, None])
    return candidates.agreement - price[:, None] * candidates.cost - CHANGE_PRICE * changed


def count_changes(records: Records, origin: Records) -> NDArray[np.intp]:
    """How many features differ, missing equal to missing.   (..., F), (..., F) -> (...)"""
    same = (records == origin) | (np.isnan(records) & np.isnan(origin))
    return np.asarray(np.count_nonzero(~same, axis=-1))


def polish(
    model: RecourseModel,
    start: Candidates,
    target: Targets,
    allowed: Allowed,
    price: Floats,
    rounds: int,
    floor: float = 0.0,
) -> Candidates:
    """start: one candidate a record (n, 1); price (n,) -> the polished candidate of each (n, 1)

    What has reached the floor of expected agreement does not fall below it again.
    """
    origin, current = model.encoder.encode(allowed.origin), start
    catalogue = _catalogue(model.encoder)
    active = np.arange(len(origin))
    for _ in range(rounds):
        if not len(active) or not len(catalogue.feature):
            break
        rows, allowed_rows = current.take_rows(active), allowed.rows(active)
        moved = _best_moves(model, catalogue, rows, origin[active], target[active], allowed_rows, price[active])
        before = worth(rows, allowed_rows.origin, price[active])
        sinks = (moved.agreement < floor) & (rows.agreement >= floor)
        after = np.where(sinks, -np.inf, worth(moved, allowed_rows.origin, price[active]))
        best = after.argmax(axis=1)[:, None]
        gains = np.take_along_axis(after, best, axis=1)[:, 0] > before[:, 0] + 1e-6
        current = current.replace_rows(active[gains], moved.take(best).take_rows(np.flatnonzero(gains)))
        active = active[gains]
    return current


@dataclass(frozen=True, eq=False)
class _Catalogue:
    """The M moves that the schema knows, all (M,).

    feature  which one is changed
    way      the share of a number's change that is kept; 0 goes back to the applicant's own value, NaN for a category
    stride   how far a number goes beyond that, in standard deviations
    level    the category that is taken, -1 for none
    first    the feature's first column, second its other one (the same for a number)
    cosine   where the category stands on its circle, and sine
    step     the grid of the number
    """

    feature: NDArray[np.intp]
    way: Floats
    stride: Floats
    level: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    cosine: Floats
    sine: Floats
    step: Floats


@lru_cache(maxsize=64)
def _catalogue(encoder: Encoder) -> _Catalogue:
    moves: list[tuple[int, float, float, int]] = []
    for j, feature in enumerate(encoder.schema.features):
        moves.append((j, 0.0, 0.0, -1))
        if feature.is_categorical:
            moves += [(j, np.nan, 0.0, level) for level in range(len(feature.categories))]
        else:
            moves += [(j, way, 0.0, -1) for way in WAYS]
            moves += [(j, 1.0, sign * STRIDE, -1) for sign in (-1.0, 1.0)]
    columns, ways, strides, levels = (np.array(part) for part in zip(*moves, strict=True))
    circle = np.zeros((len(moves), 2))
    for position in np.flatnonzero(levels >= 0):
        circle[position] = encoder.encode_feature(int(columns[position]), np.array(float(levels[position])))
    return _Catalogue(
        feature=columns,
        way=ways,
        stride=strides,
        level=levels,
        first=np.array([encoder.columns[j].start for j in columns]),
        second=np.array([encoder.columns[j].stop - 1 for j in columns]),
        cosine=circle[:, 0],
        sine=circle[:, 1],
        step=np.array([encoder.schema.features[j].step for j in columns]),
    )


def _proposals(encoder: Encoder, catalogue: _Catalogue, current: Records, allowed: Allowed) -> Records:
    """current (n, F) -> the new value of each move's feature (n, M), on the grid and allowed; NaN is missing"""
    j = catalogue.feature
    own, here = allowed.origin[:, j], current[:, j]
    base = np.where(np.isnan(own), encoder.fill[j], own)
    at = np.where(np.isnan(here), encoder.fill[j], here)
    number = base + catalogue.way * (at - base) + catalogue.stride * encoder.scale[j]
    number = snap(np.clip(number, allowed.lower[:, j], allowed.upper[:, j]), catalogue.step)
    value = np.where(catalogue.level >= 0, catalogue.level, number)
    return np.where(catalogue.way == 0.0, own, value)


def _permitted(catalogue: _Catalogue, values: Records, current: Records, allowed: Allowed) -> NDArray[np.bool_]:
    """Which moves (n, M) change something and lead to an allowed value."""
    j, here = catalogue.feature, current[:, catalogue.feature]
    same = (values == here) | (np.isnan(values) & np.isnan(here))
    inside = (values >= allowed.lower[:, j]) & (values <= allowed.upper[:, j])
    listed = allowed.levels[:, j, np.maximum(catalogue.level, 0)]
    home = catalogue.way == 0.0
    fits = np.where(home, allowed.own_fits()[:, j], np.where(catalogue.level >= 0, listed, inside))
    permitted: NDArray[np.bool_] = allowed.movable[:, j] & ~same & fits
    return permitted


def moves_of(model: RecourseModel, best: Candidates, target: Targets, allowed: Allowed) -> Candidates:
    """The most promising single-feature moves from best (n, 1), scored (n, c); an impossible one stays put."""
    origin = model.encoder.encode(allowed.origin)
    price = np.full(len(origin), MOVE_PRICE)
    return _best_moves(model, _catalogue(model.encoder), best, origin, target, allowed, price)


def _best_moves(
    model: RecourseModel,
    catalogue: _Catalogue,
    rows: Candidates,
    origin: Encoded,
    target: Targets,
    allowed: Allowed,
    price: Floats,
) -> Candidates:
    """The SCORED most promising moves of each record, scored (n, SCORED)."""
    encoder, current, at = model.encoder, rows.records[:, 0], rows.points[:, 0]
    values = _proposals(encoder, catalogue, current, allowed)
    logit, gradient = logit_and_gradient(model, at, target)
    shift, squared = _effects(encoder, catalogue, values, at, origin, gradient)
    agreement = 1.0 / (1.0 + np.exp(-(logit[:, None] + shift)))
    estimate = agreement - price[:, None] * np.sqrt(np.maximum(rows.cost**2 + squared, 0.0))
    j = catalogue.feature
    own = allowed.origin[:, j]
    back = (values == own) | (np.isnan(values) & np.isnan(own))
    estimate = np.where(back, estimate + CHANGE_PRICE, estimate)
    estimate = np.where(_permitted(catalogue, values, current, allowed), estimate, -np.inf)
    count = min(SCORED, estimate.shape[1])
    top = np.argsort(-estimate, axis=1, kind="stable")[:, :count]
    moved = np.repeat(current[:, None], count, axis=1)
    feature = j[top]
    new = np.take_along_axis(values, top, axis=1)
    possible = np.isfinite(np.take_along_axis(estimate, top, axis=1))
    kept = np.take_along_axis(moved, feature[:, :, None], axis=2)[:, :, 0]
    np.put_along_axis(moved, feature[:, :, None], np.where(possible, new, kept)[:, :, None], axis=2)
    return measure(model, moved, target, origin)


def _effects(
    encoder: Encoder, catalogue: _Catalogue, values: Records, at: Encoded, origin: Encoded, gradient: Encoded
) -> tuple[Floats, Floats]:
    """values (n, M) -> the first-order change of the logit, the exact change of the squared cost; both (n, M)"""
    j, first, second = catalogue.feature, catalogue.first, catalogue.second
    filled = np.where(np.isnan(values), encoder.fill[j], values)
    home = catalogue.way == 0.0
    number = (filled - encoder.mean[j]) / encoder.scale[j]
    new = np.where(catalogue.level >= 0, catalogue.cosine, np.where(home, origin[:, first], number))
    shift, squared = _column_effect(new, at[:, first], origin[:, first], gradient[:, first])
    paired = first != second
    other = np.where(home, origin[:, second], catalogue.sine)
    more, wider = _column_effect(other, at[:, second], origin[:, second], gradient[:, second])
    return shift + np.where(paired, more, 0.0), squared + np.where(paired, wider, 0.0)


def _column_effect(new: Floats, old: Floats, home: Floats, slope: Floats) -> tuple[Floats, Floats]:
    return (new - old) * slope, (new - home) ** 2 - (old - home) ** 2
