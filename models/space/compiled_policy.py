"""An action policy in compiled form, for one schema: arrays in place of names (docs/POLICY.md)."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from ..arrays import Floats, Records
from ..data.grid import Grid
from ..data.policy import Falls, Implies, Keep, Lever, Multiples, Policy, Time, Window
from ..data.policy_checks import check_policy, followers, levers_of, names_in, scale_bounds
from ..data.schema import Direction, Schema
from .rules import (
    TOLERANCE,
    Codes,
    Columns,
    CompiledFormula,
    Flags,
    Groups,
    Implications,
    Inequalities,
    Places,
    TestMaker,
    Tests,
    compile_formulas,
)

NOISE = 1e-6
"""Of a step: so much is forgiven before a number is rounded to a grid."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """The P numbers that somebody moves and of which the policy says more than the schema; all (P,).

    They are moved at most by `most` and by the share `share` of the applicant's own, infinite where nothing is said.
    """

    places: Places
    grid: Grid
    step: Floats
    offset: Floats
    smallest: Floats
    most: Floats
    share: Floats
    lower: Floats
    upper: Floats
    move: tuple[Direction, ...]
    leave_codes: Flags


@dataclass(frozen=True, eq=False)
class Clock:
    """The T numbers that months move: places, and for each its rule, its conditions, and what of it is noise (T,)."""

    places: Places
    rules: tuple[Time | Window, ...]
    tests: Tests
    conditions: tuple[tuple[int, ...], ...]
    noise: Floats

    def meets(self, columns: Columns) -> Flags:
        """-> (T, n, c), or (T, 1, 1) where none are asked: who meets the conditions of each"""
        if not any(self.conditions):
            return np.ones((len(self.places), 1, 1), dtype=np.bool_)
        meets = np.ones((len(self.places), *columns.raw.shape[1:]), dtype=np.bool_)
        hold = self.tests.hold(columns)
        for row, tests in enumerate(self.conditions):
            for test in tests:
                meets[row] &= hold[test]
        return meets


def time_values(rule: Time | Window, step: float, own: Floats, months: int) -> Floats:
    """own (n,) -> what the number is after 0 to `months` months (n, months + 1), rounded towards what it is today"""
    passed = np.arange(months + 1.0)
    if isinstance(rule, Time):
        moved = own[:, None] + rule.adds * passed / rule.months
    elif rule.falls is Falls.EVENLY:
        moved = own[:, None] + (rule.to - own[:, None]) * np.minimum(passed / rule.months, 1.0)
    else:
        moved = np.where(passed >= rule.months, rule.to, own[:, None])
    grid, up = Grid.of(step), moved > own[:, None]
    steps = np.where(up, np.floor(moved / step + NOISE), np.ceil(moved / step - NOISE))
    rounded = grid.snap(steps * step)
    return np.where(up == (rounded > own[:, None]), rounded, own[:, None])


@dataclass(frozen=True, eq=False)
class CompiledPolicy:
    """A policy for one schema.

    schema   as the policy sees it: what follows by time or a formula is not immutable. A request's constraints are
             compiled with it; so are `violations`
    follow   the features that nobody moves by hand
    weights  (F,) how hard a change of each feature is
    """

    schema: Schema
    policy: Policy
    follow: frozenset[str]
    levers: tuple[tuple[Lever, ...], ...]
    weights: Floats
    codes: Codes
    numbers: Numbers
    steps: tuple[tuple[int, Flags], ...]
    clock: Clock
    formulas: tuple[CompiledFormula, ...]
    implications: Implications
    inequalities: Inequalities
    groups: Groups

    @cached_property
    def derived(self) -> Places:
        """(D,) what formulas compute"""
        return np.array([formula.feature for formula in self.formulas], dtype=np.intp)

    @cached_property
    def rule_codes(self) -> Codes:
        """Of the features that rules between features name"""
        names = {name for rule in self.policy.rules for name in names_in(rule)}
        return self.codes.only(self.schema.index(name) for name in names)

    @cached_property
    def clock_codes(self) -> Codes:
        """Of what time moves"""
        return self.codes.only(self.clock.places)

    @cached_property
    def steps_of(self) -> Floats:
        """(2, F): the step and the offset of the values that may be suggested of each feature"""
        steps = np.array([(feature.step, 0.0) for feature in self.schema.features]).T.copy()
        steps[:, self.numbers.places] = self.numbers.step, self.numbers.offset
        return steps

    @cached_property
    def roots(self) -> Flags:
        """(F, F): what has to go back for a feature to go back: itself, all that time moves, what a formula reads"""
        roots = np.eye(len(self.schema.features), dtype=np.bool_)
        roots[np.ix_(self.clock.places, self.clock.places)] = True
        for formula in self.formulas:
            roots[formula.feature] = roots[list(formula.reads)].any(axis=0)
        return roots

    @cached_property
    def by_hand(self) -> Flags:
        """(F,) what somebody moves"""
        return np.array([name not in self.follow for name in self.schema.names])


@lru_cache(maxsize=64)
def compile_policy(schema: Schema, policy: Policy, smallest: tuple[tuple[str, float], ...] = ()) -> CompiledPolicy:
    """SchemaError where the policy does not fit the schema. smallest: by feature, where the policy says nothing"""
    check_policy(schema, policy)
    follow = followers(policy)
    opened = [
        replace(feature, immutable=False, protected=False) if feature.name in follow else feature
        for feature in schema.features
    ]
    return CompiledPolicy(
        schema=replace(schema, features=tuple(opened)),
        policy=policy,
        follow=follow,
        levers=tuple(levers_of(feature, policy) for feature in schema.features),
        weights=np.array([policy.of(name).weight for name in schema.names]),
        codes=Codes.of(schema, policy),
        numbers=_numbers(schema, policy, dict(smallest)),
        steps=_steps(schema, policy),
        clock=_clock(schema, policy),
        formulas=compile_formulas(schema, policy),
        implications=Implications.of(schema, policy),
        inequalities=Inequalities.of(schema, policy),
        groups=Groups.of(schema, policy),
    )


def _numbers(schema: Schema, policy: Policy, smallest: dict[str, float]) -> Numbers:
    hands = [
        (j, feature, policy.of(feature.name))
        for j, feature in enumerate(schema.features)
        if not feature.is_categorical and not {Lever.NOBODY, Lever.TIME} & set(levers_of(feature, policy))
    ]
    rows = list[tuple[float, ...]]()
    for j, feature, entry in hands:
        grid = entry.grid or Multiples(feature.step)
        least = smallest.get(feature.name, 0.0) if entry.smallest_change is None else entry.smallest_change
        lower, upper = scale_bounds(feature, entry)
        said = least or entry.grid or entry.codes or entry.largest_change or entry.largest_share
        if said or entry.lower is not None or entry.upper is not None or entry.move is not Direction.ANY:
            most, share = entry.largest_change or np.inf, entry.largest_share or np.inf
            rows.append((j, grid.step, grid.offset, least, most, share, lower, upper, entry.leave_codes))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 9).T
    places = columns[0].astype(np.intp)
    return Numbers(
        places=places,
        grid=Grid.of(np.array([schema.features[j].step for j in places], dtype=np.float64)),
        step=columns[1],
        offset=columns[2],
        smallest=columns[3],
        most=columns[4],
        share=columns[5],
        lower=columns[6],
        upper=columns[7],
        move=tuple(policy.of(schema.names[j]).move for j in places),
        leave_codes=columns[8].astype(np.bool_),
    )


def _steps(schema: Schema, policy: Policy) -> tuple[tuple[int, Flags], ...]:
    """Of each feature whose categories may not all follow each other: from which (K,) to which (K,)"""
    found = []
    for j, feature in enumerate(schema.features):
        entry, categories = policy.of(feature.name), feature.categories
        if not categories or (entry.transitions is None and entry.move is Direction.ANY):
            continue
        order = entry.order or feature.order or categories
        rank = np.array([order.index(category) for category in categories])
        way = rank[None, :] - rank[:, None]
        may = {Direction.UP: way >= 0, Direction.DOWN: way <= 0, Direction.ANY: np.ones(way.shape, bool)}[entry.move]
        if entry.transitions is not None:
            listed = [[after in entry.transitions.get(before, ()) for after in categories] for before in categories]
            may = may & np.array(listed)
        found.append((j, may | np.eye(len(categories), dtype=np.bool_)))
    return tuple(found)


def _clock(schema: Schema, policy: Policy) -> Clock:
    rules = tuple(rule for rule in policy.rules if isinstance(rule, Time | Window))
    maker = TestMaker(schema)
    asked = [maker.add(rule.while_) if isinstance(rule, Time) else {} for rule in rules]
    return Clock(
        places=np.array([schema.index(rule.feature) for rule in rules], dtype=np.intp),
        rules=rules,
        tests=maker.make(),
        conditions=tuple(tuple(maker.place(test) for tests in each.values() for test in tests) for each in asked),
        noise=np.array([NOISE * schema.features[schema.index(rule.feature)].step for rule in rules]),
    )


@dataclass(frozen=True)
class Impossible:
    """A part of the policy that rows of data break: how many of how many that it applies to, and the first of them."""

    part: str
    count: int
    of: int
    rows: tuple[int, ...]

    def __str__(self) -> str:
        shown = ", ".join(str(row + 1) for row in self.rows)
        return f"{self.count:,} of {self.of:,} rows break {self.part}, among them row {shown}."


MOST_SHOWN = 5


def impossible_rows(compiled: CompiledPolicy, records: Records) -> tuple[int, list[Impossible]]:
    """records (n, F), such as those of the training -> how many of them the policy calls impossible, and by which part

    Only what can be seen of a record by itself: grids, inequalities, formulas that are kept exactly, and
    implications that do not ask for a change.
    """
    columns = Columns(records.T[:, :, None], records.T[:, :, None], compiled.codes)
    any_broken, found = np.zeros(len(records), dtype=np.bool_), list[Impossible]()
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for part, applies, broken in [*_impossible_numbers(compiled, columns), *_impossible_rules(compiled, columns)]:
            any_broken |= broken
            if broken.any():
                rows = tuple(np.flatnonzero(broken)[:MOST_SHOWN].tolist())
                found.append(Impossible(part, int(broken.sum()), int(applies.sum()), rows))
    return int(any_broken.sum()), found


Part = tuple[str, Flags, Flags]
"""What it is called, the rows that it applies to (n,), and those that break it (n,)."""


def _impossible_numbers(compiled: CompiledPolicy, columns: Columns) -> list[Part]:
    found = []
    for feature, values in zip(compiled.schema.features, columns.scale[:, :, 0], strict=True):
        entry, present = compiled.policy.of(feature.name), ~np.isnan(values)
        if entry.grid is not None:
            steps = (values - entry.grid.offset) / entry.grid.step
            off = np.abs(steps - np.rint(steps)) > NOISE
            found.append((f"the grid of '{feature.name}'", present, off & present))
    return found


def _impossible_rules(compiled: CompiledPolicy, columns: Columns) -> list[Part]:
    policy, found = compiled.policy, list[Part]()
    left, right = (side[:, :, 0] for side in compiled.inequalities.sides(columns))
    size = np.maximum(np.maximum(np.abs(left), np.abs(right)), 1.0)
    for row, rule in enumerate(compiled.inequalities.rule):
        known = np.isfinite(left[row] - right[row])
        found.append(
            (policy.title(policy.rules[rule]), known, known & (left[row] - right[row] > TOLERANCE * size[row]))
        )
    hold = compiled.implications.tests.hold(columns)[:, :, 0]
    for row, rule in enumerate(compiled.implications.rule):
        stated = policy.rules[rule]
        assert isinstance(stated, Implies)
        if all(condition.changed is None for condition in [*stated.if_.values(), *stated.then.values()]):
            applies: Flags = np.logical_and.reduce(hold[compiled.implications.premises[:, row]])
            found.append((policy.title(stated), applies, applies & ~hold[compiled.implications.consequence[row]]))
    for formula in compiled.formulas:
        if formula.keep is Keep.NONE:
            feature, own = compiled.schema.features[formula.feature], columns.raw[formula.feature, :, 0]
            value = formula.value(columns)[:, 0]
            off = np.abs(value - own)
            broken = _above(off, feature.step * (0.5 + NOISE))
            found.append((policy.title(policy.rules[formula.rule]), np.isfinite(off), broken))
    return found


def _above(values: Floats, limit: Floats | float) -> Flags:
    """Where values that could be computed are above the limit."""
    above: Flags = np.isfinite(values) & (values > limit)
    return above
