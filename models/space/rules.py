"""The rules between features in compiled form: what a candidate breaks, and what formulas make of it (docs/POLICY.md).

Candidates stand here feature by feature, (F, n, c): c candidates of n records. Rules of a kind are looked at together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..data.expressions import (
    Expression,
    evaluate,
    linear_terms,
    names_of,
    parse_expression,
    parse_inequality,
)
from ..data.grid import Grid
from ..data.policy import AtMostOne, Conditions, Formula, Implies, Inequality, Keep, Policy, Time, Window
from ..data.policy_checks import formula_order, inputs_of
from ..data.schema import Schema

TOLERANCE = 1e-9
"""Of the larger side of an inequality, at least of 1: so much is noise."""
Flags: TypeAlias = NDArray[np.bool_]
Places: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Codes:
    """The features that have codes: places (P,), and what they are, (P, L), filled up with NaN."""

    places: Places
    numbers: Floats

    @classmethod
    def of(cls, schema: Schema, policy: Policy) -> "Codes":
        coded = [(j, policy.of(name).code_numbers) for j, name in enumerate(schema.names) if policy.of(name).codes]
        longest = max((len(codes) for _, codes in coded), default=0)
        rows = [(*codes, *([np.nan] * (longest - len(codes)))) for _, codes in coded]
        return cls(_places(j for j, _ in coded), np.array(rows, dtype=np.float64).reshape(len(coded), longest))

    def found(self, values: Floats) -> Flags:
        """values (P, ...) -> where they are codes"""
        shape = (len(self.places), *([1] * (values.ndim - 1)))
        found = np.zeros(values.shape, dtype=np.bool_)
        for column in self.numbers.T:
            found |= values == column.reshape(shape)
        return found

    def only(self, places: Iterable[int]) -> "Codes":
        """Those of some features"""
        kept = np.isin(self.places, _places(places))
        return Codes(self.places[kept], self.numbers[kept])


def _places(numbers: Iterable[int]) -> Places:
    return np.array(list(numbers), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Columns:
    """Candidates and their origins: raw (F, n, c), origin (F, n, 1)."""

    raw: Floats
    origin: Floats
    codes: Codes

    @cached_property
    def changed(self) -> Flags:
        """(F, n, c), missing equal to missing"""
        return differs(self.raw, self.origin)

    @cached_property
    def scale(self) -> Floats:
        """(F, n, c), the numbers that are amounts; NaN where a code stands"""
        return self._amounts(self.raw)

    @cached_property
    def origin_scale(self) -> Floats:
        """(F, n, 1), as `scale`"""
        return self._amounts(self.origin)

    @cached_property
    def coded(self) -> Flags:
        """(P, n, 1): where the applicant's own value is a code; a candidate has no others"""
        return self.codes.found(self.origin[self.codes.places])

    def _amounts(self, values: Floats) -> Floats:
        """NaN where a code stands; the same array where there are none"""
        places = self.codes.places
        if not self.coded.any():
            return values
        amounts = values.copy()
        here = amounts[places]
        np.putmask(here, self.coded & (here == self.origin[places]), np.nan)
        amounts[places] = here
        return amounts


def differs(values: Floats, others: Floats) -> Flags:
    """Where they are not equal, missing equal to missing."""
    unequal: Flags = values != others
    gone = np.isnan(others)
    if gone.any():
        unequal &= ~(np.isnan(values) & gone)
    return unequal


@dataclass(frozen=True, eq=False)
class Tests:
    """T tests of one feature each; in the results, a last one that always holds.

    tables    places (A,) of categories and which levels pass (A, K + 1), the last one for a missing value
    ranges    places (B,) of numbers and their ends (B,); nothing that is missing or a code passes
    lists     places (L,) of numbers, what passes (or fails, where `barred`)
    moves     places (C,) and whether the feature has to change (C,)
    """

    tables: tuple[Places, Flags]
    ranges: tuple[Places, Floats, Floats]
    lists: tuple[tuple[int, tuple[float, ...], bool], ...]
    moves: tuple[Places, Flags]

    def hold(self, columns: Columns) -> Flags:
        """-> (T + 1, n, c): tables, ranges, lists, moves, and one that always holds"""
        parts = []
        shape = columns.raw.shape[1:]
        if len(self.tables[0]):
            values, last = columns.raw[self.tables[0]], self.tables[1].shape[1] - 1
            levels = np.where(np.isnan(values), last, values).astype(np.intp)
            parts.append(self.tables[1][np.arange(len(levels))[:, None, None], levels])
        if len(self.ranges[0]):
            numbers = columns.scale[self.ranges[0]]
            parts.append((numbers >= self.ranges[1][:, None, None]) & (numbers <= self.ranges[2][:, None, None]))
        parts += [self._listed(columns.raw[j], numbers, barred)[None] for j, numbers, barred in self.lists]
        if len(self.moves[0]):
            parts.append(columns.changed[self.moves[0]] == self.moves[1][:, None, None])
        return np.concatenate([*parts, np.ones((1, *shape), dtype=np.bool_)])

    @staticmethod
    def _listed(values: Floats, numbers: tuple[float, ...], barred: bool) -> Flags:
        found = np.zeros(values.shape, dtype=np.bool_)
        for number in numbers:
            found |= values == number
        return ~found if barred else found


class TestMaker:
    """Collects the tests of conditions; `make` says where each of them stands among the results."""

    __test__ = False

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.tables: list[tuple[int, Flags]] = []
        self.ranges: list[tuple[int, float, float]] = []
        self.lists: list[tuple[int, tuple[float, ...], bool]] = []
        self.moves: list[tuple[int, bool]] = []
        self.width = 1 + max(2, *(len(feature.categories) for feature in schema.features))

    def add(self, conditions: Conditions) -> dict[str, list[tuple[str, int]]]:
        """The tests of each feature: of which group, and its place in it"""
        found: dict[str, list[tuple[str, int]]] = {}
        for name, condition in conditions.items():
            j, tests = self.schema.index(name), found.setdefault(name, [])
            categories = self.schema.features[j].categories
            for listed, barred in ((condition.in_, False), (condition.not_in, True)):
                if listed is not None and categories:
                    passing = np.zeros(self.width, dtype=np.bool_)
                    passing[[categories.index(str(value)) for value in listed]] = True
                    tests.append(("tables", len(self.tables)))
                    self.tables.append((j, ~passing if barred else passing))
                elif listed is not None:
                    tests.append(("lists", len(self.lists)))
                    self.lists.append((j, tuple(float(value) for value in listed), barred))
            if condition.at_least is not None or condition.at_most is not None:
                low = -np.inf if condition.at_least is None else condition.at_least
                tests.append(("ranges", len(self.ranges)))
                self.ranges.append((j, low, np.inf if condition.at_most is None else condition.at_most))
            if condition.changed is not None:
                tests.append(("moves", len(self.moves)))
                self.moves.append((j, condition.changed))
        return found

    def make(self) -> Tests:
        return Tests(
            (_places(j for j, _ in self.tables), np.array([row for _, row in self.tables]).reshape(-1, self.width)),
            (
                _places(j for j, _, _ in self.ranges),
                np.array([low for _, low, _ in self.ranges], dtype=np.float64),
                np.array([high for _, _, high in self.ranges], dtype=np.float64),
            ),
            tuple(self.lists),
            (_places(j for j, _ in self.moves), np.array([moved for _, moved in self.moves], dtype=np.bool_)),
        )

    def place(self, test: tuple[str, int]) -> int:
        """Where a test stands among the results, once all are added."""
        groups = ("tables", "ranges", "lists", "moves")
        before = groups[: groups.index(test[0])]
        return sum(len(getattr(self, group)) for group in before) + test[1]

    @property
    def always(self) -> int:
        return len(self.tables) + len(self.ranges) + len(self.lists) + len(self.moves)


def padded(rows: Sequence[Sequence[int]], fill: Sequence[int]) -> Places:
    """Rows of unlike length -> (longest, R), each filled up with its own entry of `fill`"""
    longest = max((len(row) for row in rows), default=0)
    filled = [[*row, *([fill[place]] * (longest - len(row)))] for place, row in enumerate(rows)]
    return np.array(filled, dtype=np.intp).reshape(len(rows), longest).T


@dataclass(frozen=True, eq=False)
class Implications:
    """R pairs of all the conditions of a rule and one that they imply; a rule has as many as it has consequences.

    rule (R,) its place in the policy; premises (I, R), consequence (R,) places among the tests; named (J, R) features;
    target (R,) the feature of the consequence
    """

    rule: Places
    tests: Tests
    premises: Places
    consequence: Places
    named: Places
    target: Places

    @classmethod
    def of(cls, schema: Schema, policy: Policy) -> "Implications":
        maker, pairs = TestMaker(schema), []
        for place, rule in enumerate(policy.rules):
            if isinstance(rule, Implies):
                premises, consequences = maker.add(rule.if_), maker.add(rule.then)
                before = [test for tests in premises.values() for test in tests]
                for name, tests in consequences.items():
                    named = [schema.index(other) for other in dict.fromkeys([*rule.if_, name])]
                    pairs += [(place, before, test, (*named, schema.index(name))) for test in tests]
        return cls(
            rule=_places(place for place, _, _, _ in pairs),
            tests=maker.make(),
            premises=padded(
                [[maker.place(t) for t in before] for _, before, _, _ in pairs], [maker.always] * len(pairs)
            ),
            consequence=_places(maker.place(test) for _, _, test, _ in pairs),
            named=padded([named for _, _, _, named in pairs], [named[0] for _, _, _, named in pairs]),
            target=_places(named[-1] for _, _, _, named in pairs),
        )

    def broken(self, columns: Columns) -> Flags:
        """-> (R, n, c): only who changes something that a rule names can break it"""
        hold = self.tests.hold(columns)
        broken: Flags = ~hold[self.consequence]
        for row in self.premises:
            broken &= hold[row]
        moved: Flags = columns.changed[self.named[0]]
        for row in self.named[1:]:
            moved |= columns.changed[row]
        broken &= moved
        return broken


@dataclass(frozen=True, eq=False)
class Sums:
    """R sums of multiples: constant (R,), factors (K, R) of the features at places (K, R)."""

    constant: Floats
    factors: Floats
    places: Places

    def value(self, scale: Floats) -> Floats:
        """scale (F, n, c) -> (R, n, c)"""
        total = np.broadcast_to(self.constant[:, None, None], (len(self.constant), *scale.shape[1:]))
        for factor, place in zip(self.factors, self.places, strict=True):
            total = total + factor[:, None, None] * scale[place]
        return total


@dataclass(frozen=True, eq=False)
class Inequalities:
    """R inequalities left <= right; the first ones are sums of multiples, the others are evaluated one by one."""

    rule: Places
    left: Sums
    right: Sums
    others: tuple[tuple[Expression, Expression], ...]
    index: Mapping[str, int]

    @classmethod
    def of(cls, schema: Schema, policy: Policy) -> "Inequalities":
        index = {name: j for j, name in enumerate(schema.names)}
        plain, others = list[tuple[int, dict[str, float], dict[str, float]]](), []
        for place, rule in enumerate(policy.rules):
            if isinstance(rule, Inequality):
                left, right = parse_inequality(rule.require)
                terms = linear_terms(left), linear_terms(right)
                if terms[0] is not None and terms[1] is not None:
                    plain.append((place, terms[0], terms[1]))
                else:
                    others.append((place, (left, right)))
        named = [[index[name] for terms in row[1:] for name in terms if name] for row in plain]
        return cls(
            rule=_places([*(row[0] for row in plain), *(place for place, _ in others)]),
            left=_sums([row[1] for row in plain], named, index),
            right=_sums([row[2] for row in plain], named, index),
            others=tuple(sides for _, sides in others),
            index=index,
        )

    def sides(self, columns: Columns) -> tuple[Floats, Floats]:
        """-> left and right, both (R, n, c); NaN where one cannot be computed"""
        scale = columns.scale
        left, right = [self.left.value(scale)], [self.right.value(scale)]
        for one, other in self.others:
            shape = (1, *scale.shape[1:])
            left.append(np.broadcast_to(evaluate(one, *self._readers(columns)), shape))
            right.append(np.broadcast_to(evaluate(other, *self._readers(columns)), shape))
        return np.concatenate(left), np.concatenate(right)

    def _readers(self, columns: Columns) -> tuple[Callable[[str], Floats], Callable[[str], Floats]]:
        """What a name stands for in the candidates, and in the origins"""
        scale, before = columns.scale, columns.origin_scale
        return lambda name: scale[self.index[name]], lambda name: before[self.index[name]]

    def named(self, other: int) -> list[str]:
        """The features in one of the `others`"""
        return [name for side in self.others[other] for name in names_of(side)]

    def limits(self, origin: Floats, codes: Codes) -> Floats:
        """origin (F, n, 1) -> (n, R): by how much left may be above right, because it is so already"""
        left, right = self.sides(Columns(origin, origin, codes))
        gap = left - right
        return np.where(np.isfinite(gap) & (gap > 0), gap, 0.0)[:, :, 0].T

    def broken(self, columns: Columns, limits: Floats) -> Flags:
        """limits (n, R) -> (R, n, c)"""
        left, right = self.sides(columns)
        gap, size = left - right, np.maximum(np.maximum(np.abs(left), np.abs(right)), 1.0)
        broken: Flags = (gap > limits.T[:, :, None] + TOLERANCE * size) & np.isfinite(gap)
        return broken


def _sums(rows: list[dict[str, float]], named: list[list[int]], index: Mapping[str, int]) -> Sums:
    """named: the features of both sides of each rule; where one of them is missing, neither side is known"""
    factors = [[row.get(name, 0.0) for name in index] for row in rows]
    longest = max((len(set(places)) for places in named), default=0)
    places = padded([list(dict.fromkeys(each)) for each in named], [each[0] for each in named])
    table, used = np.zeros((longest, len(rows))), set[tuple[int, int]]()
    for k in range(longest):
        for r in range(len(rows)):
            j = int(places[k, r])
            table[k, r] = 0.0 if (r, j) in used else factors[r][j]
            used.add((r, j))
    return Sums(np.array([row.get("", 0.0) for row in rows]), table, places)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of which at most one feature changes; those that time moves are one together."""

    rule: Places
    members: tuple[tuple[Places, Places], ...]

    @classmethod
    def of(cls, schema: Schema, policy: Policy) -> "Groups":
        timed = {rule.feature for rule in policy.rules if isinstance(rule, Time | Window)}
        found = [(place, rule.features) for place, rule in enumerate(policy.rules) if isinstance(rule, AtMostOne)]
        members = [
            (
                _places(schema.index(name) for name in names if name not in timed),
                _places(schema.index(name) for name in names if name in timed),
            )
            for _, names in found
        ]
        return cls(_places(place for place, _ in found), tuple(members))

    def broken(self, columns: Columns) -> Flags:
        """-> (R, n, c)"""
        shape = (len(self.members), *columns.raw.shape[1:])
        counts = np.zeros(shape, dtype=np.intp)
        for row, (single, timed) in enumerate(self.members):
            counts[row] = columns.changed[single].sum(axis=0)
            if len(timed):
                counts[row] += columns.changed[timed].any(axis=0)
        return counts > 1


@dataclass(frozen=True, eq=False)
class CompiledFormula:
    """A derived feature j: what it reads, how it is computed, what it keeps of a record, and its grid."""

    rule: int
    feature: int
    reads: tuple[int, ...]
    expression: Expression | None
    table: Floats | None
    keep: Keep
    grid: Grid | None
    index: Mapping[str, int]

    def value(self, columns: Columns) -> Floats:
        """-> (n, c); NaN where it cannot be computed"""
        if self.table is not None:
            values = columns.raw[self.reads[0]]
            return self.table[np.where(np.isnan(values), len(self.table) - 1, values).astype(np.intp)]
        assert self.expression is not None
        value = evaluate(self.expression, *[lambda name: columns.scale[self.index[name]]] * 2)
        return np.where(np.isfinite(value), value, np.nan)

    def known(self, origin: Floats, codes: Codes) -> Floats:
        """origin (F, n, 1) -> what the formula says of the records as they are (n,)"""
        return self.value(Columns(origin, origin, codes))[:, 0]

    def fill(self, columns: Columns, known: Floats) -> Flags:
        """Writes the feature into the columns. known (n,) -> where it cannot be computed though it should be (n, c)"""
        own = columns.origin[self.feature]
        moved = np.zeros(columns.raw.shape[1:], dtype=np.bool_)
        for j in self.reads:
            moved |= differs(columns.raw[j], columns.origin[j])
        moved &= ~np.isnan(own)  # what is missing stays missing
        value = self.value(columns)
        if self.keep is not Keep.NONE:
            before = known[:, None]
            kept = own + (value - before)
            if self.keep is Keep.RATIO:
                kept = np.where(before == 0, kept, own * (value / before))
            value = np.where(np.isnan(before), value, kept)
        value = value if self.grid is None else self.grid.snap(value)
        lost = ~np.isfinite(value)
        filled = np.where(moved & ~lost, value, own)
        columns.raw[self.feature] = filled
        if columns.scale is not columns.raw:
            columns.scale[self.feature] = filled
        return moved & lost


def compile_formulas(schema: Schema, policy: Policy) -> tuple[CompiledFormula, ...]:
    """Each after those that it reads."""
    index = {name: j for j, name in enumerate(schema.names)}
    return tuple(_compile_formula(schema, index, policy.rules.index(rule), rule) for rule in formula_order(policy))


def _compile_formula(schema: Schema, index: Mapping[str, int], place: int, rule: Formula) -> CompiledFormula:
    feature, table = schema.features[index[rule.feature]], None
    if rule.table is not None:
        rows = [rule.table.values[category] for category in schema.features[index[rule.table.feature]].categories]
        numbers = [float(feature.categories.index(row)) if isinstance(row, str) else row for row in rows]
        table = np.array([*numbers, np.nan])
    return CompiledFormula(
        rule=place,
        feature=index[rule.feature],
        reads=tuple(index[name] for name in inputs_of(rule)),
        expression=parse_expression(rule.equals) if rule.equals else None,
        table=table,
        keep=rule.keep,
        grid=None if feature.is_categorical else Grid.of(feature.step),
        index=index,
    )
