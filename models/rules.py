"""The constraints that hold for every record of a request: the schema's own, tightened by the request's."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.errors import ConstraintError
from models.grid import plain, snap_down, snap_up
from models.schema import Direction, Feature, Schema

Range = tuple[float | None, float | None] | tuple[str, ...]
"""The least and the greatest number, None where open; or the permitted categories."""


@dataclass(frozen=True, eq=False)
class Rules:
    """The constraints that hold for every record, one entry a feature.

    categorical, frozen, up, down, ranged (F,); lower, upper (F,) on the grid; levels (F, Kmax), Kmax at least 1
    """

    categorical: NDArray[np.bool_]
    frozen: NDArray[np.bool_]
    up: NDArray[np.bool_]
    down: NDArray[np.bool_]
    ranged: NDArray[np.bool_]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    levels: NDArray[np.bool_]


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
    for j, feature in enumerate(features):
        if feature.is_categorical:
            levels[j, : len(feature.categories)] = _permitted(feature, ranges.get(feature.name))
    ways = [{feature.direction, _direction(feature, directions)} for feature in features]
    return Rules(
        categorical=np.array([feature.is_categorical for feature in features]),
        frozen=np.array([feature.immutable or feature.name in immutable for feature in features]),
        up=np.array([Direction.UP in way for way in ways]),
        down=np.array([Direction.DOWN in way for way in ways]),
        ranged=np.array([_is_range(ranges.get(feature.name)) for feature in features]),
        lower=np.array([lower for lower, _ in bounds]),
        upper=np.array([upper for _, upper in bounds]),
        levels=levels,
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
