"""What a request forbids, compiled to what each record may become.

The schema's own rules (immutable, protected, one-way, bounds) and the request's are merged; a request can only tighten
them. A missing value can go neither up nor down, so a one-way feature that is missing stays missing. A range asks for a
value within it, so a missing value that may move has to become one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.allowed import Allowed
from models.encoding import Encoder
from models.errors import ConstraintError
from models.grid import plain, snap
from models.matrix import Encoded, Records
from models.rules import Range, Rules, merge_rules
from models.schema import Direction, Feature, Schema


@dataclass(frozen=True)
class Constraints:
    """What one request says: features by name that must not change, must lie in a range, or may move only one way."""

    immutable: frozenset[str] = frozenset()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)


class Box(NamedTuple):
    """The box that the state of the ODE is projected onto: lower, upper (n, D); equal where a feature is frozen."""

    lower: Encoded
    upper: Encoded


def compile_constraints(schema: Schema, constraints: Constraints, origin: Records) -> Allowed:
    """What the records origin (n, F) may become; ConstraintError for the first of them that is left nothing."""
    rules = merge_rules(schema, constraints.immutable, constraints.ranges, constraints.directions)
    compiled = _compile(rules, origin)
    for error in _row_errors(schema, rules, compiled):
        if error is not None:
            raise error
    return compiled.allowed


def check_constraints(schema: Schema, constraints: Constraints, origin: Records) -> list[ConstraintError | None]:
    """The error of each record of origin (n, F), None where there is none; what no record can meet is raised."""
    rules = merge_rules(schema, constraints.immutable, constraints.ranges, constraints.directions)
    return _row_errors(schema, rules, _compile(rules, origin))


def violations(schema: Schema, origin: Records, candidates: Records, allowed: Allowed) -> NDArray[np.bool_]:
    """Which values are not allowed, exactly: no tolerance.   origin, candidates (n, F) -> (n, F)"""
    gone = np.isnan(candidates)
    same = (candidates == origin) | (gone & np.isnan(origin))
    wrong = (candidates < allowed.lower) | (candidates > allowed.upper)
    lower, upper, step = np.array([(feature.lower, feature.upper, feature.step) for feature in schema.features]).T
    wrong |= (candidates < lower) | (candidates > upper) | (snap(candidates, step) != candidates)
    for j in np.flatnonzero([feature.is_categorical for feature in schema.features]):
        level = np.where(wrong[:, j] | gone[:, j], 0.0, candidates[:, j]).astype(np.intp)
        wrong[:, j] |= ~allowed.levels[np.arange(len(level)), j, level]
    wrong = np.where(gone, ~(np.isnan(origin) & allowed.missing), wrong)
    return np.where(allowed.movable, wrong, ~same)


def encoded_box(encoder: Encoder, allowed: Allowed) -> Box:
    """The box of n records: numeric columns in z units, circles whole, frozen columns at the encoded origin exactly."""
    owner = encoder.feature_of_column
    circle = np.array([feature.is_categorical for feature in encoder.schema.features])[owner]
    frozen, point = ~allowed.movable[:, owner], encoder.encode(allowed.origin)
    lower = ((allowed.lower - encoder.mean) / encoder.scale)[:, owner]
    upper = ((allowed.upper - encoder.mean) / encoder.scale)[:, owner]
    lower, upper = np.where(circle, -1.0, lower), np.where(circle, 1.0, upper)
    return Box(np.where(frozen, point, lower), np.where(frozen, point, upper))


@dataclass(frozen=True, eq=False)
class _Compiled:
    """The constraints of n records, and where they leave nothing: empty (n, F)."""

    allowed: Allowed
    empty: NDArray[np.bool_]


def _compile(rules: Rules, origin: Records) -> _Compiled:
    """The rules for each record of origin (n, F)."""
    present = ~np.isnan(origin)
    frozen = rules.frozen | ((rules.up | rules.down) & ~present)
    lower = np.where(rules.up & present, np.fmax(rules.lower, origin), rules.lower)
    upper = np.where(rules.down & present, np.fmin(rules.upper, origin), rules.upper)
    levels = _levels(rules, origin)
    level = np.where(present & rules.categorical, origin, 0.0).astype(np.intp)[:, :, None]
    own_level = np.take_along_axis(levels, level, axis=2)[:, :, 0]
    own = np.where(rules.categorical, own_level & present, (lower <= origin) & (origin <= upper))
    count = np.where(rules.categorical, levels.sum(axis=2), np.sign(upper - lower) + 1)
    allowed = Allowed(
        origin=origin,
        lower=np.where(frozen, origin, lower),
        upper=np.where(frozen, origin, upper),
        levels=levels,
        movable=~(frozen | (own & (count == 1))),
        missing=~present & (frozen | ~rules.ranged),
    )
    return _Compiled(allowed, empty=np.where(frozen, present & ~own, count == 0))


def _levels(rules: Rules, origin: Records) -> NDArray[np.bool_]:
    """The permitted categories (n, F, Kmax): one copy for all records unless an ordered feature moves one way."""
    shared = np.broadcast_to(rules.levels, (len(origin), *rules.levels.shape))
    one_way = np.flatnonzero(rules.categorical & (rules.up | rules.down))
    if not len(one_way):
        return shared
    levels, index = shared.copy(), np.arange(rules.levels.shape[1])
    for j in one_way:
        own = origin[:, j, None]
        unknown = np.isnan(own)
        levels[:, j] &= unknown | (index >= own) | (not rules.up[j])
        levels[:, j] &= unknown | (index <= own) | (not rules.down[j])
    return levels


def _row_errors(schema: Schema, rules: Rules, compiled: _Compiled) -> list[ConstraintError | None]:
    """One entry a record; of several errors of a record, that of its first feature."""
    errors: list[ConstraintError | None] = [None] * len(compiled.allowed)
    for row, j in zip(*np.nonzero(compiled.empty), strict=True):
        if errors[row] is None:
            feature = schema.features[j]
            value, wanted = _show(feature, compiled.allowed.origin[row, j]), _show_range(feature, rules, j)
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
