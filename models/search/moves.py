"""The moves of local search: every change of one feature, what it would lead to, and whether it is allowed."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Encoded, Floats, Records
from ..config import LocalSearchConfig
from ..data.grid import Grid
from ..space.codings import Simplices
from ..space.encoding import Encoder
from ..space.feasible import FeasibleSet, same


@dataclass(frozen=True, eq=False)
class MoveSet:
    """The M moves of those of the schema's features that may change, all (M,).

    feature  which one is changed
    way      the share of a number's change that is kept; 0 goes back to the applicant's own value, NaN for a category
    stride   how far a number goes beyond that, in standard deviations
    level    the category that is taken, -1 for none
    first    the feature's first column, second its other one (the same where it has only one)
    back     whether the move goes back to the applicant's own value
    place    where the category stands in these two columns (M, 2)
    single   the moves of categories with a column each; of these `first` is the first, and the rest is not used
    radius   what stands in the column of such a category (M,)
    grid     of the number
    features (P,): those that may change, and the moves of each in `of` (P, L), filled up with the first
    """

    feature: NDArray[np.intp]
    way: Floats
    stride: Floats
    level: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    back: NDArray[np.bool_]
    place: Floats
    single: NDArray[np.intp]
    radius: Floats
    grid: Grid
    features: NDArray[np.intp]
    of: NDArray[np.intp]


def move_set_of(encoder: Encoder, movable: NDArray[np.bool_], config: LocalSearchConfig) -> MoveSet:
    """movable (F,): which features may change at all; what may not has no moves that would only be looked at in vain"""
    return _move_set(encoder, movable.tobytes(), config)


@lru_cache(maxsize=256)
def _move_set(encoder: Encoder, movable: bytes, config: LocalSearchConfig) -> MoveSet:
    features = np.flatnonzero(np.frombuffer(movable, dtype=np.bool_))
    moves: list[tuple[int, float, float, int]] = []
    for j in features.tolist():
        feature = encoder.schema.features[j]
        moves.append((j, 0.0, 0.0, -1))
        if feature.is_categorical:
            moves += [(j, np.nan, 0.0, level) for level in range(len(feature.categories))]
        else:
            moves += [(j, way, 0.0, -1) for way in config.shares]
            moves += [(j, 1.0, stride, -1) for stride in config.strides]
    columns, levels = (np.array([move[part] for move in moves], dtype=np.intp) for part in (0, 3))
    ways, strides = (np.array([move[part] for move in moves], dtype=np.float64) for part in (1, 2))
    radius = np.zeros(len(encoder.schema.features))
    for block in encoder.blocks:
        if isinstance(block.coding, Simplices):
            radius[block.features] = block.coding.radius
    radius = radius[columns]
    place = np.zeros((len(moves), 2))
    for position in np.flatnonzero((levels >= 0) & (radius == 0)):
        where = encoder.encode_feature(int(columns[position]), np.array(float(levels[position])))
        place[position, : len(where)] = where
    return MoveSet(
        feature=columns,
        way=ways,
        stride=strides,
        level=levels,
        first=np.array([encoder.columns[j].start for j in columns], dtype=np.intp),
        second=np.array([encoder.columns[j].stop - 1 for j in columns], dtype=np.intp),
        back=ways == 0.0,
        place=place,
        single=np.flatnonzero(radius),
        radius=radius,
        grid=Grid.of([encoder.schema.features[j].step for j in columns]),
        features=features,
        of=_moves_by_feature(columns, features),
    )


def _moves_by_feature(columns: NDArray[np.intp], features: NDArray[np.intp]) -> NDArray[np.intp]:
    """columns (M,), the feature of each move, of features (P,) -> (P, L)"""
    origin_value = [np.flatnonzero(columns == j) for j in features]
    longest = max((len(moves) for moves in origin_value), default=0)
    filled = [np.concatenate([moves, np.repeat(moves[:1], longest - len(moves))]) for moves in origin_value]
    return np.array(filled, dtype=np.intp).reshape(len(features), longest)


@dataclass(frozen=True, eq=False)
class MoveContext:
    """What stays the same for n records during local search: what they may become, origin_point (n, D); of each move
    (n, M):

    weight         of its feature in the squared cost
    origin_value   the applicant's value, and origin_filled the number that stands for it
    lower          the least and upper the largest number allowed
    opened         whether the constraints allow the move, save for a number's limits
    """

    moves: MoveSet
    config: LocalSearchConfig
    feasible: FeasibleSet
    origin_point: Encoded
    weight: Floats
    origin_value: Records
    origin_filled: Records
    lower: Records
    upper: Records
    opened: NDArray[np.bool_]

    @classmethod
    def of(cls, encoder: Encoder, feasible: FeasibleSet, config: LocalSearchConfig) -> "MoveContext":
        moves = move_set_of(encoder, np.asarray(feasible.movable.any(axis=0)), config)
        j, level = moves.feature, moves.level
        origin_value = feasible.origin[:, j]
        listed = (level < 0) | feasible.levels[:, j, np.maximum(level, 0)]
        opened = feasible.movable[:, j] & np.where(moves.back, feasible.own_fits()[:, j], listed)
        filled = np.where(np.isnan(origin_value), encoder.fill[j], origin_value)
        point, lower, upper = encoder.encode(feasible.origin), feasible.lower[:, j], feasible.upper[:, j]
        weight = np.ones(opened.shape) if feasible.weights is None else feasible.weights[:, j] ** 2
        return cls(moves, config, feasible, point, weight, origin_value, filled, lower, upper, opened)

    def rows(self, rows: NDArray[np.intp]) -> "MoveContext":
        parts: dict[str, Any] = {name: part[rows] for name, part in vars(self).items() if isinstance(part, np.ndarray)}
        return replace(self, feasible=self.feasible.rows(rows), **parts)


def proposals(encoder: Encoder, context: MoveContext, here: Records) -> Records:
    """here (n, M), the value of each move's feature -> its new value (n, M), on the grid and allowed; NaN is missing"""
    moves = context.moves
    at = np.where(np.isnan(here), encoder.fill[moves.feature], here)
    number = (
        context.origin_filled + moves.way * (at - context.origin_filled) + moves.stride * encoder.scale[moves.feature]
    )
    number = moves.grid.snap(np.clip(number, context.lower, context.upper))
    value = np.where(moves.level >= 0, moves.level, number)
    return np.where(moves.back, context.origin_value, value)


def permitted(context: MoveContext, values: Records, here: Records) -> NDArray[np.bool_]:
    """Which moves (n, M) change something and lead to an allowed value."""
    inside = (values >= context.lower) & (values <= context.upper)
    free = context.moves.back | (context.moves.level >= 0)
    open_moves: NDArray[np.bool_] = context.opened & ~same(values, here) & (free | inside)
    return open_moves


def changed_features(records: Records, origin: Records) -> NDArray[np.bool_]:
    """Which features differ.   (..., F), (..., F) -> (..., F)"""
    return ~same(records, origin)


def effects(
    encoder: Encoder, context: MoveContext, here: Records, values: Records, at: Encoded, gradient: Encoded
) -> tuple[Floats, Floats]:
    """here, values (n, M), before and after each move, at points (n, D) with their gradients (n, D)

    -> the first-order change of the logit, the exact change of the squared cost; both (n, M)
    """
    moves = context.moves
    j, first, second = moves.feature, moves.first, moves.second
    filled = np.where(np.isnan(values), encoder.fill[j], values)
    number = (filled - encoder.mean[j]) / encoder.scale[j]
    origin_point = context.origin_point[:, first]
    new = np.where(moves.level >= 0, moves.place[:, 0], np.where(moves.back, origin_point, number))
    shift, squared = _column_effect(new, at[:, first], origin_point, gradient[:, first])
    if (first != second).any():
        paired, origin_point = first != second, context.origin_point[:, second]
        other = np.where(moves.back, origin_point, moves.place[:, 1])
        more, wider = _column_effect(other, at[:, second], origin_point, gradient[:, second])
        shift, squared = shift + np.where(paired, more, 0.0), squared + np.where(paired, wider, 0.0)
    if len(single := moves.single):
        left = np.where(np.isnan(here[:, single]), encoder.fill[j[single]], here[:, single])
        shift[:, single], squared[:, single] = _single_effect(context, left, filled[:, single], gradient)
    return shift, squared * context.weight


def _single_effect(context: MoveContext, left: Records, taken: Records, gradient: Encoded) -> tuple[Floats, Floats]:
    """As `effects`, of the S moves from category left to category taken (n, S), where each has a column of its own"""
    single = context.moves.single
    start, radius = context.moves.first[single], context.moves.radius[single]
    before, after = left.astype(np.intp), taken.astype(np.intp)
    slope = np.take_along_axis(gradient, start + after, axis=1) - np.take_along_axis(gradient, start + before, axis=1)
    own = context.origin_filled[:, single]
    return radius * slope, 2 * radius**2 * ((taken != own) * 1.0 - (left != own))


def _column_effect(new: Floats, old: Floats, origin_point: Floats, slope: Floats) -> tuple[Floats, Floats]:
    return (new - old) * slope, (new - origin_point) ** 2 - (old - origin_point) ** 2
