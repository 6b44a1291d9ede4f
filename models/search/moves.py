"""The moves that polishing knows: every change of one feature, what it would lead to, and whether it is allowed."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..arrays import Encoded, Floats, Records
from ..data.grid import Grid
from ..space.encoding import Encoder
from ..space.feasible import Allowed

WAYS = (0.5, 0.8, 0.93, 1.07, 1.2)
"""A number goes this share of its way from the applicant's value."""
STRIDES = (-0.3, -0.08, 0.08, 0.3)
"""A number also goes so many standard deviations from where it is."""


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The M moves of those of the schema's features that may change, all (M,).

    feature  which one is changed
    way      the share of a number's change that is kept; 0 goes back to the applicant's own value, NaN for a category
    stride   how far a number goes beyond that, in standard deviations
    level    the category that is taken, -1 for none
    first    the feature's first column, second its other one (the same for a number)
    back     whether the move goes back to the applicant's own value
    cosine   where the category stands on its circle, and sine
    grid     of the number
    features (P,): those that may change, and the moves of each in `of` (P, L), filled up with the first
    numbers  (N,): one move of each feature that is a number
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
    grid: Grid
    features: NDArray[np.intp]
    of: NDArray[np.intp]
    numbers: NDArray[np.intp]


def catalogue_of(encoder: Encoder, movable: NDArray[np.bool_]) -> Catalogue:
    """movable (F,): which features may change at all; what may not has no moves that would only be looked at in vain"""
    return _catalogue(encoder, movable.tobytes())


@lru_cache(maxsize=256)
def _catalogue(encoder: Encoder, movable: bytes) -> Catalogue:
    features = np.flatnonzero(np.frombuffer(movable, dtype=np.bool_))
    moves: list[tuple[int, float, float, int]] = []
    for j in features.tolist():
        feature = encoder.schema.features[j]
        moves.append((j, 0.0, 0.0, -1))
        if feature.is_categorical:
            moves += [(j, np.nan, 0.0, level) for level in range(len(feature.categories))]
        else:
            moves += [(j, way, 0.0, -1) for way in WAYS]
            moves += [(j, 1.0, stride, -1) for stride in STRIDES]
    columns, levels = (np.array([move[part] for move in moves], dtype=np.intp) for part in (0, 3))
    ways, strides = (np.array([move[part] for move in moves], dtype=np.float64) for part in (1, 2))
    circle = np.zeros((len(moves), 2))
    for position in np.flatnonzero(levels >= 0):
        circle[position] = encoder.encode_feature(int(columns[position]), np.array(float(levels[position])))
    return Catalogue(
        feature=columns,
        way=ways,
        stride=strides,
        level=levels,
        first=np.array([encoder.columns[j].start for j in columns], dtype=np.intp),
        second=np.array([encoder.columns[j].stop - 1 for j in columns], dtype=np.intp),
        back=ways == 0.0,
        cosine=circle[:, 0],
        sine=circle[:, 1],
        grid=Grid.of([encoder.schema.features[j].step for j in columns]),
        features=features,
        of=_moves_by_feature(columns, features),
        numbers=np.flatnonzero(ways == WAYS[0]),
    )


def _moves_by_feature(columns: NDArray[np.intp], features: NDArray[np.intp]) -> NDArray[np.intp]:
    """columns (M,), the feature of each move, of features (P,) -> (P, L)"""
    own = [np.flatnonzero(columns == j) for j in features]
    longest = max((len(moves) for moves in own), default=0)
    filled = [np.concatenate([moves, np.repeat(moves[:1], longest - len(moves))]) for moves in own]
    return np.array(filled, dtype=np.intp).reshape(len(features), longest)


@dataclass(frozen=True, eq=False)
class Ground:
    """What stays the same for n records while they are polished: origin (n, F), home (n, D) and, of each move, (n, M).

    own       the applicant's value, and base the number that stands for it
    lower     the least and upper the largest number allowed
    opened    whether the constraints allow the move, save for a number's limits
    """

    catalogue: Catalogue
    origin: Records
    home: Encoded
    own: Records
    base: Records
    lower: Records
    upper: Records
    opened: NDArray[np.bool_]

    @classmethod
    def of(cls, encoder: Encoder, allowed: Allowed) -> "Ground":
        catalogue = catalogue_of(encoder, np.asarray(allowed.movable.any(axis=0)))
        j, level = catalogue.feature, catalogue.level
        own = allowed.origin[:, j]
        listed = (level < 0) | allowed.levels[:, j, np.maximum(level, 0)]
        opened = allowed.movable[:, j] & np.where(catalogue.back, allowed.own_fits()[:, j], listed)
        base = np.where(np.isnan(own), encoder.fill[j], own)
        home = encoder.encode(allowed.origin)
        return cls(catalogue, allowed.origin, home, own, base, allowed.lower[:, j], allowed.upper[:, j], opened)

    def rows(self, rows: NDArray[np.intp]) -> "Ground":
        lower, upper, opened = self.lower[rows], self.upper[rows], self.opened[rows]
        own, base = self.own[rows], self.base[rows]
        return Ground(self.catalogue, self.origin[rows], self.home[rows], own, base, lower, upper, opened)


def proposals(encoder: Encoder, ground: Ground, here: Records) -> Records:
    """here (n, M), the value of each move's feature -> its new value (n, M), on the grid and allowed; NaN is missing"""
    catalogue = ground.catalogue
    at = np.where(np.isnan(here), encoder.fill[catalogue.feature], here)
    number = ground.base + catalogue.way * (at - ground.base) + catalogue.stride * encoder.scale[catalogue.feature]
    number = catalogue.grid.snap(np.clip(number, ground.lower, ground.upper))
    value = np.where(catalogue.level >= 0, catalogue.level, number)
    return np.where(catalogue.back, ground.own, value)


def permitted(ground: Ground, values: Records, here: Records) -> NDArray[np.bool_]:
    """Which moves (n, M) change something and lead to an allowed value."""
    inside = (values >= ground.lower) & (values <= ground.upper)
    free = ground.catalogue.back | (ground.catalogue.level >= 0)
    open_moves: NDArray[np.bool_] = ground.opened & ~same(values, here) & (free | inside)
    return open_moves


def same(values: Records, others: Records) -> NDArray[np.bool_]:
    """Where they are equal, missing equal to missing."""
    equal: NDArray[np.bool_] = (values == others) | (np.isnan(values) & np.isnan(others))
    return equal


def effects(encoder: Encoder, ground: Ground, values: Records, at: Encoded, gradient: Encoded) -> tuple[Floats, Floats]:
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
