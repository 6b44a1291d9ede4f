"""A request's constraints, compiled to what each record may become (METHOD.md, section 6.1).

The schema's own rules (immutable, protected, one-way, bounds) and the request's are merged; a request can only tighten
them. Who lies beyond the schema's bounds may stay there, or move anywhere between. A missing value can go neither up
nor down, so a one-way feature that is missing stays missing. A range asks for a value within it, so a missing value
that may move has to become one. Several requests, each with constraints of its own, are joined for one search.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..arrays import Encoded, Records
from ..data.grid import plain, snap, snap_down, snap_up
from ..data.policy import Lever
from ..data.schema import Direction, Feature, Schema
from ..errors import ConstraintError
from .encoding import Encoder
from .feasible import Bounds, FeasibleSet, join_rules

Range = tuple[float | None, float | None] | tuple[str, ...]
"""The least and the greatest number, None where open; or the permitted categories."""


@dataclass(frozen=True, eq=False)
class Rules:
    """The constraints that hold for every record, one entry a feature.

    categorical, frozen, up, down, ranged (F,); lower, upper (F,) on the grid; levels, ranks (F, Kmax), Kmax at least 1
    floor, ceiling (F,): the request's alone, infinite where open; they hold whoever lies beyond the schema's bounds
    """

    categorical: NDArray[np.bool_]
    frozen: NDArray[np.bool_]
    up: NDArray[np.bool_]
    down: NDArray[np.bool_]
    ranged: NDArray[np.bool_]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    floor: NDArray[np.float64]
    ceiling: NDArray[np.float64]
    levels: NDArray[np.bool_]
    ranks: NDArray[np.intp]


def merge_rules(
    schema: Schema, immutable: frozenset[str], ranges: Mapping[str, Range], directions: Mapping[str, Direction]
) -> Rules:
    """The request's rules within the schema's; ConstraintError for what no record can meet."""
    for name in [*immutable, *ranges, *directions]:
        if name not in schema.names:
            known = ", ".join(schema.names)
            raise ConstraintError(f"The constraints name '{name}', which is no feature; the features are {known}.")
    features = schema.features
    bounds = [_number_bounds(feature, ranges.get(feature.name)) for feature in features]
    levels = np.zeros((len(features), max(1, *(len(feature.categories) for feature in features))), dtype=np.bool_)
    ranks = np.zeros(levels.shape, dtype=np.intp)
    for j, feature in enumerate(features):
        if feature.is_categorical:
            levels[j, : len(feature.categories)] = _permitted(feature, ranges.get(feature.name))
            ranks[j, : len(feature.categories)] = feature.ranks
    ways = [{feature.direction, _direction(feature, directions)} for feature in features]
    lower, upper = np.array(bounds).T
    floor, ceiling = np.array([_asked_ends(feature, ranges.get(feature.name)) for feature in features]).T
    return Rules(
        categorical=np.array([feature.is_categorical for feature in features]),
        frozen=np.array([feature.immutable or feature.name in immutable for feature in features]),
        up=np.array([Direction.UP in way for way in ways]),
        down=np.array([Direction.DOWN in way for way in ways]),
        ranged=np.array([_is_range(ranges.get(feature.name)) for feature in features]),
        lower=lower,
        upper=upper,
        floor=floor,
        ceiling=ceiling,
        levels=levels,
        ranks=ranks,
    )


def _is_range(given: Range | None) -> bool:
    return given is not None and given != (None, None)


def _direction(feature: Feature, directions: Mapping[str, Direction]) -> Direction:
    asked = directions.get(feature.name, Direction.ANY)
    if asked not in list(Direction):
        raise ConstraintError(f"'{feature.name}' cannot move {asked!r}; the directions are {', '.join(Direction)}.")
    if asked != Direction.ANY and feature.is_categorical and not feature.ordered:
        raise ConstraintError(f"'{feature.name}' has categories without an order, so it cannot move only {asked}.")
    return asked


def _number_bounds(feature: Feature, given: Range | None) -> tuple[float, float]:
    """The range within the feature's bounds, rounded inward to its grid."""
    if given is None or feature.is_categorical:
        return feature.lower, feature.upper
    lower, upper = _two_numbers(feature, given)
    low = feature.lower if lower is None else snap_up(_clip(lower, feature), feature.step)
    high = feature.upper if upper is None else snap_down(_clip(upper, feature), feature.step)
    if low > high or low > feature.upper or high < feature.lower:
        shown = f"{'any' if lower is None else plain(lower)} to {'any' if upper is None else plain(upper)}"
        raise ConstraintError(
            f"The range {shown} of '{feature.name}' holds none of its values: "
            f"they go from {plain(feature.lower)} to {plain(feature.upper)} in steps of {plain(feature.step)}."
        )
    return max(low, feature.lower), min(high, feature.upper)


def _asked_ends(feature: Feature, given: Range | None) -> tuple[float, float]:
    """The ends of the range as they were asked for, infinite where open."""
    lower, upper = (None, None) if given is None or feature.is_categorical else _two_numbers(feature, given)
    return -math.inf if lower is None else lower, math.inf if upper is None else upper


def _clip(end: float, feature: Feature) -> float:
    """The end of a range, at most one step outside of the feature's bounds: far away there is no grid."""
    return min(max(end, feature.lower - feature.step), feature.upper + feature.step)


def _two_numbers(feature: Feature, given: Range) -> tuple[float | None, float | None]:
    try:
        numbers = [None if end is None else float(end) for end in given if not isinstance(end, str | bool)]
    except OverflowError as error:
        fact = f"The range of '{feature.name}' has a number of more than 300 digits"
        raise ConstraintError(f"{fact}; leave an open end empty.") from error
    if len(given) != 2 or len(numbers) != 2:
        raise ConstraintError(f"The range of '{feature.name}' must be its least and its greatest number, not {given}.")
    if not all(number is None or math.isfinite(number) for number in numbers):
        raise ConstraintError(f"The range {given} of '{feature.name}' is not finite; leave an open end empty.")
    lower, upper = numbers
    if lower is not None and upper is not None and lower > upper:
        raise ConstraintError(f"The range of '{feature.name}' is inverted: {plain(lower)} is above {plain(upper)}.")
    return lower, upper


def _permitted(feature: Feature, given: Range | None) -> NDArray[np.bool_]:
    """The categories that the range lists.   -> (number of categories,)"""
    if given is None:
        return np.ones(len(feature.categories), dtype=np.bool_)
    if not given:
        raise ConstraintError(f"The range of '{feature.name}' is empty; list the categories that it may have.")
    for category in given:
        if category not in feature.categories:
            known = ", ".join(feature.categories)
            raise ConstraintError(f"The range of '{feature.name}' lists {category!r}; its categories are {known}.")
    return np.isin(np.array(feature.categories), np.array(given))


DEFAULT_LEVERS = (Lever.APPLICANT, Lever.TIME)
MOST_MONTHS = 120
"""No longer wait is advised."""
BySchema: TypeAlias = Literal["schema"]
"""As many as the model's schema says."""


@dataclass(frozen=True)
class Constraints:
    """What one request says: features by name that must not change, must lie in a range, or may move only one way.

    max_changes  so many features may change at the most; None: as many as like
    weights      how hard a feature is to change: what its change costs is so many times as large
    levers       who shall act: the applicant, time, the lender (models/data/policy.py)
    months       the longest wait
    """

    immutable: frozenset[str] = frozenset()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)
    max_changes: int | BySchema | None = "schema"
    weights: Mapping[str, float] = field(default_factory=dict)
    levers: tuple[Lever, ...] = DEFAULT_LEVERS
    months: int = 12


def compile_constraints(schema: Schema, constraints: Constraints, origin: Records) -> FeasibleSet:
    """What the records origin (n, F) may become; ConstraintError for the first that has no allowed value left.

    >>> from ..data.schema import Feature, FeatureKind
    >>> age, savings = (Feature(name, FeatureKind.NUMERIC, lower=0, upper=9000) for name in ("age", "savings"))
    >>> schema = Schema((age, savings), "approved", ("no", "yes"))
    >>> asked = Constraints(immutable=frozenset({"age"}), ranges={"savings": (None, 500.0)})
    >>> feasible = compile_constraints(schema, asked, np.array([[44.0, 200.0]]))
    >>> feasible.lower, feasible.upper
    (array([[44.,  0.]]), array([[ 44., 500.]]))
    """
    feasible, errors = compile_each(schema, constraints, origin)
    for error in errors:
        if error is not None:
            raise error
    return feasible


def compile_each(
    schema: Schema, constraints: Constraints, origin: Records
) -> tuple[FeasibleSet, list[ConstraintError | None]]:
    """The same, and the error of each record instead; what no record can meet is raised."""
    rules = merge_rules(schema, constraints.immutable, constraints.ranges, constraints.directions)
    feasible, empty = _compile(rules, origin)
    errors = _row_errors(schema, rules, origin, empty)
    most = schema.max_changes if constraints.max_changes == "schema" else constraints.max_changes
    if most is not None:
        _check_most(most)
        feasible = replace(feasible, most=np.full(len(origin), most))
        forced = (~feasible.own_fits()).sum(axis=1)
        for row in np.flatnonzero(forced > most):
            fact = (
                f"Row {row + 1}: {forced[row]} features have to change to lie in their ranges, and at most {most} may"
            )
            errors[row] = errors[row] or ConstraintError(f"{fact}; allow more changes or widen the ranges.")
    if constraints.weights:
        _check_weights(schema, constraints.weights)
        hard = np.array([float(constraints.weights.get(name, 1.0)) for name in schema.names])
        feasible = replace(feasible, weights=np.broadcast_to(hard, origin.shape))
    return feasible, errors


def _check_most(most: int) -> None:
    if type(most) is not int or most < 1:
        raise ConstraintError(
            f"max_changes is {most!r}; it must be a whole number of at least 1, or null for no limit."
        )


def _check_weights(schema: Schema, weights: Mapping[str, float]) -> None:
    for name, weight in weights.items():
        if name not in schema.names:
            known = ", ".join(schema.names)
            raise ConstraintError(f"The weights name '{name}', which is no feature; the features are {known}.")
        if isinstance(weight, bool) or not 0 < weight < math.inf:
            raise ConstraintError(f"The weight of '{name}' is {weight!r}; it must be a finite number above 0.")


def violations(schema: Schema, origin: Records, candidates: Records, feasible: FeasibleSet) -> NDArray[np.bool_]:
    """Which values are not allowed, exactly: no tolerance.   origin, candidates (n, F) -> (n, F)"""
    gone = np.isnan(candidates)
    same = (candidates == origin) | (gone & np.isnan(origin))
    wrong = (candidates < feasible.lower) | (candidates > feasible.upper)
    lower, upper, step = np.array([(feature.lower, feature.upper, feature.step) for feature in schema.features]).T
    wrong |= (candidates < np.fmin(lower, origin)) | (candidates > np.fmax(upper, origin))
    wrong |= (snap(candidates, step) != candidates) & ~same
    for j in np.flatnonzero([feature.is_categorical for feature in schema.features]):
        level = np.where(wrong[:, j] | gone[:, j], 0.0, candidates[:, j]).astype(np.intp)
        wrong[:, j] |= ~feasible.levels[np.arange(len(level)), j, level]
    wrong = np.where(gone, ~(np.isnan(origin) & feasible.missing), wrong)
    return np.where(feasible.movable, wrong, ~same)


def encoded_bounds(encoder: Encoder, feasible: FeasibleSet) -> Bounds[Encoded]:
    """Bounds (n, D) of n records: numbers in z units, a box around permitted categories, the origin where frozen."""
    owner = encoder.feature_of_column
    frozen, point = ~feasible.movable[:, owner], encoder.encode(feasible.origin)
    lower = ((feasible.lower - encoder.mean) / encoder.scale)[:, owner]
    upper = ((feasible.upper - encoder.mean) / encoder.scale)[:, owner]
    for block in encoder.blocks:
        permitted, missing = feasible.levels[:, block.features], feasible.missing[:, block.features]
        lower[:, block.columns], upper[:, block.columns] = block.coding.box(permitted, missing)
    return Bounds(np.where(frozen, point, lower), np.where(frozen, point, upper))


def _compile(rules: Rules, origin: Records) -> tuple[FeasibleSet, NDArray[np.bool_]]:
    """The rules for each record of origin (n, F), and where they leave nothing (n, F)"""
    present = ~np.isnan(origin)
    frozen = rules.frozen | ((rules.up | rules.down) & ~present)
    lower = np.where(origin >= rules.floor, np.fmin(rules.lower, origin), rules.lower)
    upper = np.where(origin <= rules.ceiling, np.fmax(rules.upper, origin), rules.upper)
    lower = np.where(rules.up & present & ~rules.categorical, np.fmax(lower, origin), lower)
    upper = np.where(rules.down & present & ~rules.categorical, np.fmin(upper, origin), upper)
    levels = _levels(rules, origin)
    level = np.where(present & rules.categorical, origin, 0.0).astype(np.intp)[:, :, None]
    own_level = np.take_along_axis(levels, level, axis=2)[:, :, 0]
    own = np.where(rules.categorical, own_level & present, (lower <= origin) & (origin <= upper))
    count = np.where(rules.categorical, levels.sum(axis=2), np.sign(upper - lower) + 1)
    feasible = FeasibleSet(
        origin=origin,
        lower=np.where(frozen, origin, lower),
        upper=np.where(frozen, origin, upper),
        levels=levels,
        movable=~(frozen | (own & (count == 1))),
        missing=~present & (frozen | ~rules.ranged),
    )
    return feasible, np.where(frozen, present & ~own, count == 0)


def _levels(rules: Rules, origin: Records) -> NDArray[np.bool_]:
    """The permitted categories (n, F, Kmax): one copy for all records unless an ordered feature moves one way."""
    shared = np.broadcast_to(rules.levels, (len(origin), *rules.levels.shape))
    one_way = np.flatnonzero(rules.categorical & (rules.up | rules.down))
    if not len(one_way):
        return shared
    levels = shared.copy()
    for j in one_way:
        unknown = np.isnan(origin[:, j, None])
        own = rules.ranks[j, np.where(unknown, 0.0, origin[:, j, None]).astype(np.intp)]
        levels[:, j] &= unknown | (rules.ranks[j] >= own) | (not rules.up[j])
        levels[:, j] &= unknown | (rules.ranks[j] <= own) | (not rules.down[j])
    return levels


def _row_errors(
    schema: Schema, rules: Rules, origin: Records, empty: NDArray[np.bool_]
) -> list[ConstraintError | None]:
    """One entry a record; of several errors of a record, that of its first feature."""
    errors: list[ConstraintError | None] = [None] * len(origin)
    for row, j in zip(*np.nonzero(empty), strict=True):
        if errors[row] is None:
            feature = schema.features[j]
            value, wanted = _show(feature, origin[row, j]), _show_range(feature, rules, j)
            fact = f"'{feature.name}' is {value} and {_reason(feature, rules, j)}, but its range is {wanted}"
            errors[row] = ConstraintError(f"Row {row + 1}: {fact}; widen the range or leave the record out.")
    return errors


def _reason(feature: Feature, rules: Rules, j: int) -> str:
    if feature.protected:
        return "is protected, so it must not change"
    if rules.frozen[j] or (rules.up[j] and rules.down[j]):
        return "must not change"
    return "may only go up" if rules.up[j] else "may only go down"


def _show(feature: Feature, value: float) -> str:
    return repr(feature.categories[int(value)]) if feature.is_categorical else plain(float(value))


def _show_range(feature: Feature, rules: Rules, j: int) -> str:
    if feature.is_categorical:
        return ", ".join(name for level, name in enumerate(feature.categories) if rules.levels[j, level])
    return f"{plain(float(rules.lower[j]))} to {plain(float(rules.upper[j]))}"


def join(parts: Sequence[FeasibleSet]) -> FeasibleSet:
    """The records of several requests, one after the other; categories that all of them share stay one copy."""
    if len(parts) == 1:
        return parts[0]
    limited, weighed = any(part.most is not None for part in parts), any(part.weights is not None for part in parts)
    return FeasibleSet(
        origin=np.concatenate([part.origin for part in parts]),
        lower=np.concatenate([part.lower for part in parts]),
        upper=np.concatenate([part.upper for part in parts]),
        levels=_join_levels(parts),
        movable=np.concatenate([part.movable for part in parts]),
        missing=np.concatenate([part.missing for part in parts]),
        most=np.concatenate([part.limits() for part in parts]) if limited else None,
        weights=np.concatenate([part.hardness() for part in parts]) if weighed else None,
        rules=join_rules([part.rules for part in parts]),
    )


def _join_levels(parts: Sequence[FeasibleSet]) -> NDArray[np.bool_]:
    """(n, F, Kmax) of all parts"""
    filled = [part.levels for part in parts if len(part)]
    shared = all(levels.strides[0] == 0 and np.array_equal(levels[0], filled[0][0]) for levels in filled)
    if filled and shared:
        return np.broadcast_to(filled[0][0], (sum(len(part) for part in parts), *filled[0].shape[1:]))
    return np.concatenate([part.levels for part in parts])
