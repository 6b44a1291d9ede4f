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
from models.candidates import Candidates, Floats, measure, measure_with_slopes
from models.encoding import Encoder
from models.grid import snap
from models.matrix import Encoded, Records
from models.model import RecourseModel
from models.scoring import BLOCK, Slopes, Targets, score_with_slopes

CHANGE_PRICE = 0.004
"""What one changed feature costs, in agreement: a change that gains less than this is put back."""
SCORED = 16
"""How many of the ranked moves are scored exactly."""
WAYS = (0.5, 0.8, 1.2)
"""A number goes this share of its way from the applicant's value."""
MOVE_PRICE = 0.3
"""The price at which moves are ranked for those who only look at them."""
AHEAD = 2 * BLOCK
"""The slopes at up to so many moves are computed with their scores."""
STRIDE = 0.3
"""A number also goes this many standard deviations up or down from where it is."""


def worth(candidates: Candidates, origin: Records, price: Floats) -> Floats:
    """origin (n, F), price (n,) -> (n, c)"""
    changed = count_changes(candidates.records, origin[:, None])
    return candidates.agreement - price[:, None] * candidates.cost - CHANGE_PRICE * changed


def count_changes(records: Records, origin: Records) -> NDArray[np.intp]:
    """How many features differ, missing equal to missing.   (..., F), (..., F) -> (...)"""
    return np.asarray(np.count_nonzero(~_same(records, origin), axis=-1))


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
    current, active = start, np.arange(len(target))
    ground = _Ground.of(model.encoder, allowed)
    known: Slopes | None = None
    for _ in range(rounds):
        if not len(active) or not len(ground.catalogue.feature):
            break
        rows, wanted, paid = current.take_rows(active), target[active], price[active]
        moved, ahead = _measured(model, _best_moves(model, ground, rows, wanted, paid, known), wanted, ground.home)
        before = worth(rows, ground.origin, paid)
        sinks = (moved.agreement < floor) & (rows.agreement >= floor)
        after = np.where(sinks, -np.inf, worth(moved, ground.origin, paid))
        best = after.argmax(axis=1)
        gains = np.flatnonzero(after[np.arange(len(best)), best] > before[:, 0] + 1e-6)
        active, best = active[gains], best[gains]
        current = current.replace_rows(active, moved.take_rows(gains).take(best[:, None]))
        known = None if ahead is None else ahead.at(gains * moved.cost.shape[1] + best)
        ground = ground if len(gains) == len(wanted) else ground.rows(gains)
    return current


def _measured(
    model: RecourseModel, records: Records, target: Targets, home: Encoded
) -> tuple[Candidates, Slopes | None]:
    """The moves (n, c, F) measured; of few records with the slopes there, which save the next round a pass."""
    if len(records) * records.shape[1] > AHEAD:
        return measure(model, records, target, home), None
    return measure_with_slopes(model, records, target, home)


@dataclass(frozen=True, eq=False)
class _Catalogue:
    """The M moves that the schema knows, all (M,).

    feature  which one is changed
    way      the share of a number's change that is kept; 0 goes back to the applicant's own value, NaN for a category
    stride   how far a number goes beyond that, in standard deviations
    level    the category that is taken, -1 for none
    first    the feature's first column, second its other one (the same for a number)
    back     whether the move goes back to the applicant's own value
    cosine   where the category stands on its circle, and sine
    step     the grid of the number
    """

    feature: NDArray[np.intp]
    way: Floats
    stride: Floats
    level: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    back: NDArray[np.bool_]
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
        back=ways == 0.0,
        cosine=circle[:, 0],
        sine=circle[:, 1],
        step=np.array([encoder.schema.features[j].step for j in columns]),
    )


@dataclass(frozen=True, eq=False)
class _Ground:
    """What stays the same for n records while they are polished: origin (n, F), home (n, D) and, of each move, (n, M).

    own       the applicant's value, and base the number that stands for it
    lower     the least and upper the largest number allowed
    opened    whether the constraints allow the move, save for a number's limits
    """

    catalogue: _Catalogue
    origin: Records
    home: Encoded
    own: Records
    base: Records
    lower: Records
    upper: Records
    opened: NDArray[np.bool_]

    @classmethod
    def of(cls, encoder: Encoder, allowed: Allowed) -> "_Ground":
        catalogue = _catalogue(encoder)
        j, level = catalogue.feature, catalogue.level
        own = allowed.origin[:, j]
        listed = (level < 0) | allowed.levels[:, j, np.maximum(level, 0)]
        opened = allowed.movable[:, j] & np.where(catalogue.back, allowed.own_fits()[:, j], listed)
        base = np.where(np.isnan(own), encoder.fill[j], own)
        home = encoder.encode(allowed.origin)
        return cls(catalogue, allowed.origin, home, own, base, allowed.lower[:, j], allowed.upper[:, j], opened)

    def rows(self, rows: NDArray[np.intp]) -> "_Ground":
        lower, upper, opened = self.lower[rows], self.upper[rows], self.opened[rows]
        own, base = self.own[rows], self.base[rows]
        return _Ground(self.catalogue, self.origin[rows], self.home[rows], own, base, lower, upper, opened)


def _proposals(encoder: Encoder, ground: _Ground, here: Records) -> Records:
    """here (n, M), the value of each move's feature -> its new value (n, M), on the grid and allowed; NaN is missing"""
    catalogue = ground.catalogue
    at = np.where(np.isnan(here), encoder.fill[catalogue.feature], here)
    number = ground.base + catalogue.way * (at - ground.base) + catalogue.stride * encoder.scale[catalogue.feature]
    number = snap(np.clip(number, ground.lower, ground.upper), catalogue.step)
    value = np.where(catalogue.level >= 0, catalogue.level, number)
    return np.where(catalogue.back, ground.own, value)


def _permitted(ground: _Ground, values: Records, here: Records) -> NDArray[np.bool_]:
    """Which moves (n, M) change something and lead to an allowed value."""
    inside = (values >= ground.lower) & (values <= ground.upper)
    free = ground.catalogue.back | (ground.catalogue.level >= 0)
    permitted: NDArray[np.bool_] = ground.opened & ~_same(values, here) & (free | inside)
    return permitted


def _same(values: Records, others: Records) -> NDArray[np.bool_]:
    """Where they are equal, missing equal to missing."""
    same: NDArray[np.bool_] = (values == others) | (np.isnan(values) & np.isnan(others))
    return same


def moves_of(model: RecourseModel, best: Candidates, target: Targets, allowed: Allowed) -> Candidates:
    """The most promising single-feature moves from best (n, 1), scored (n, c); an impossible one stays put."""
    ground, price = _Ground.of(model.encoder, allowed), np.full(len(target), MOVE_PRICE)
    return measure(model, _best_moves(model, ground, best, target, price), target, ground.home)


def _best_moves(
    model: RecourseModel, ground: _Ground, rows: Candidates, target: Targets, price: Floats, known: Slopes | None = None
) -> Records:
    """The SCORED most promising moves of each record (n, SCORED, F); `known` are the slopes at rows (n, 1), if so"""
    encoder, current, at, j = model.encoder, rows.records[:, 0], rows.points[:, 0], ground.catalogue.feature
    here = current[:, j]
    values = _proposals(encoder, ground, here)
    slopes = known or score_with_slopes(model, at, target)[1]
    shift, squared = _effects(encoder, ground, values, at, slopes.gradient)
    agreement = 1.0 / (1.0 + np.exp(-(slopes.logit[:, None] + shift)))
    estimate = agreement - price[:, None] * np.sqrt(np.maximum(rows.cost**2 + squared, 0.0))
    estimate = np.where(_same(values, ground.own), estimate + CHANGE_PRICE, estimate)
    estimate = np.where(_permitted(ground, values, here), estimate, -np.inf)
    count = min(SCORED, estimate.shape[1])
    top = np.argsort(-estimate, axis=1, kind="stable")[:, :count]
    row = np.arange(len(top))[:, None]
    new = np.where(np.isfinite(estimate[row, top]), values[row, top], here[row, top])
    moved = np.repeat(current[:, None], count, axis=1)
    moved[row, np.arange(count), j[top]] = new
    return moved


def _effects(
    encoder: Encoder, ground: _Ground, values: Records, at: Encoded, gradient: Encoded
) -> tuple[Floats, Floats]:
    """values (n, M) -> the first-order change of the logit, the exact change of the squared cost; both (n, M)"""
    catalogue = ground.catalogue
    j, first, second = catalogue.feature, catalogue.first, catalogue.second
    filled = np.where(np.isnan(values), encoder.fill[j], values)
    number = (filled - encoder.mean[j]) / encoder.scale[j]
    home = ground.home[:, first]
    new = np.where(catalogue.level >= 0, catalogue.cosine, np.where(catalogue.back, home, number))
    shift, squared = _column_effect(new, at[:, first], home, gradient[:, first])
    paired = first != second
    if not paired.any():
        return shift, squared
    home = ground.home[:, second]
    other = np.where(catalogue.back, home, catalogue.sine)
    more, wider = _column_effect(other, at[:, second], home, gradient[:, second])
    return shift + np.where(paired, more, 0.0), squared + np.where(paired, wider, 0.0)


def _column_effect(new: Floats, old: Floats, home: Floats, slope: Floats) -> tuple[Floats, Floats]:
    return (new - old) * slope, (new - home) ** 2 - (old - home) ** 2
