"""What each record may become under an action policy: candidates made consistent, checked, and told as actions.

The parts of a policy that concern one feature at a time are a `FeasibleSet`, so all that decodes into one keeps them.
`Actions.complete` does the rest of the work on a candidate (what follows by time or by a formula, grids, changes too
small to be made), and `Actions.allowed` asks whether it breaks a rule. docs/POLICY.md has the rules to the letter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Records
from ..data.grid import Grid
from ..data.policy import Lever
from ..data.records import Value, from_records
from ..errors import ConstraintError
from .compiled_policy import NOISE, CompiledPolicy
from .constraints import join as join_feasible
from .feasible import FeasibleSet
from .rules import Codes, Columns, Flags, Groups, Implications, Inequalities, Places, differs

LEVERS = (Lever.APPLICANT, Lever.LENDER, Lever.TIME)


@dataclass(frozen=True)
class Change:
    """One feature of an action, as a person writes its values; `follows` where time or a formula moved it."""

    feature: str
    before: Value
    after: Value
    follows: bool = False


@dataclass(frozen=True)
class Action:
    """One thing to do: a change of one feature and what follows from it, or a wait of so many months."""

    kind: str
    lever: Lever
    changes: tuple[Change, ...]
    months: int = 0

    @property
    def features(self) -> tuple[str, ...]:
        """What it changes, the feature that is moved first"""
        return tuple(change.feature for change in self.changes)


def changes_as_actions(before: Mapping[str, Value], after: Mapping[str, Value]) -> tuple[Action, ...]:
    """Without a policy each change is an action of the applicant."""
    moved = [Change(name, before[name], after[name]) for name in before if before[name] != after[name]]
    return tuple(Action("change", Lever.APPLICANT, (change,)) for change in moved)


@dataclass(frozen=True, eq=False)
class Actions:
    """What n records may become. Rows can be taken, repeated and joined, as those of a FeasibleSet.

    feasible  for the search: what a feature may become by itself. A derived feature stands still here, and a number
              that time moves goes from today's value to that of the horizon
    limits    for the check: a derived feature may take any value that the request permits
    own_fits  (n, F) whether the request permits the applicant's own value
    levers    (n, 3) which of LEVERS the request has
    low, high (n, P) between these lies what may be suggested of the numbers of `policy.numbers`
    coded     (n, P) whether the applicant's own value is a code
    horizon   (n,) the most months to wait
    passing   (n, T, H + 1) what time makes of a number, by months; the own value where it moves nothing
    excess    (n, R) by how much an inequality may be broken, because it is so already
    known     (n, D) what the formulas say of the records as they are
    """

    policy: CompiledPolicy
    feasible: FeasibleSet
    limits: FeasibleSet
    own_fits: Flags
    levers: Flags
    low: Floats
    high: Floats
    coded: Flags
    horizon: NDArray[np.intp]
    passing: Floats
    excess: Floats
    known: Floats

    def __len__(self) -> int:
        return len(self.horizon)

    @property
    def origin(self) -> Records:
        return self.limits.origin

    @property
    def by_hand(self) -> Flags:
        """Which features somebody moves (F,)"""
        return self.policy.by_hand

    def rows(self, rows: NDArray[np.intp]) -> "Actions":
        """rows (m,) -> m rows"""
        arrays: dict[str, Any] = {name: getattr(self, name)[rows] for name in _ARRAYS}
        return replace(self, feasible=self.feasible.rows(rows), limits=self.limits.rows(rows), **arrays)

    def repeat(self, count: int) -> "Actions":
        """Each row `count` times, neighbours."""
        return self.rows(np.repeat(np.arange(len(self)), count))

    def joined(self, others: Sequence["Actions"]) -> "Actions":
        """These, and then those of other requests under the same policy"""
        return join_actions([self, *others])

    def freeze(self, mask: Flags) -> "Actions":
        """With the features of mask (n, F) at their own values; where time moves one of them, nobody waits."""
        still = mask[:, self.policy.clock.places].any(axis=1)
        horizon = np.where(still, 0, self.horizon)
        return replace(self, feasible=self.feasible.freeze(mask), limits=self.limits.freeze(mask), horizon=horizon)

    def complete(self, records: Records, months: NDArray[np.intp] | None = None) -> Records:
        """records (n, c, F) made consistent (n, c, F); done twice it is the same.

        months (n, c): how long each candidate waits; without, as long as its number that needs the longest wait
        """
        return rows_of(self.completed(records, months)[0].raw)

    def settle(self, records: Records, months: NDArray[np.intp] | None = None) -> tuple[Records, Flags]:
        """As `complete`, and whether each candidate is allowed (n, c).   records (n, c, F), decoded into `feasible`"""
        columns, lost = self.completed(records, months)
        ok = ~self._off_limits(columns, lost) & ~self.any_broken(columns)
        return rows_of(columns.raw), ok

    def allowed(self, records: Records, max_changes: int | None = None) -> Flags:
        """Whether candidates, wherever they are from, break nothing at all.   records (n, c, F) -> (n, c)"""
        columns, lost = self.completed(records, None)
        same = ~differs(columns.raw, _columns_of(records)).any(axis=0)
        ok: Flags = same & ~self._outside(columns, lost) & ~self.any_broken(columns)
        return ok if max_changes is None else ok & (self.count_actions(records) <= max_changes)

    def broken(self, records: Records) -> Flags:
        """Which rules of the policy consistent candidates break.   records (n, c, F) -> (n, c, number of rules)"""
        columns, lost = self.completed(records, None)
        found = np.zeros((*columns.raw.shape[1:], len(self.policy.policy.rules)), dtype=np.bool_)
        for formula, flags in zip(self.policy.formulas, lost, strict=True):
            found[:, :, formula.rule] = flags
        for rules, flags in self.broken_by_kind(columns):
            for rule, row in zip(rules.rule, flags, strict=True):
                found[:, :, rule] |= row
        return found

    def months_of(self, records: Records) -> NDArray[np.intp]:
        """The least wait that makes consistent candidates what they are.   records (n, c, F) -> (n, c)"""
        columns = Columns(_columns_of(records), self._own, self.policy.codes)
        return self._months(columns, self.policy.clock.meets(columns))

    def count_actions(self, records: Records) -> NDArray[np.intp]:
        """How many things there are to do; all that waiting changes is one.   records (n, c, F) -> (n, c)"""
        changed = differs(_columns_of(records), self._own)
        count = changed[self.policy.by_hand].sum(axis=0)
        return np.asarray(count + changed[self.policy.clock.places].any(axis=0), dtype=np.intp)

    def actions_of(self, row: int, record: Records) -> list[Action]:
        """What the applicant of a row has to do for a consistent record (F,): each change, then the wait."""
        compiled = self.policy
        before, after = from_records(compiled.schema, np.stack([self.origin[row], record]))
        moved = [name for name in compiled.schema.names if before[name] != after[name]]
        told: set[str] = set()

        def changes(names: list[str], follow: bool) -> tuple[Change, ...]:
            """The changes of features, and of those that follow from them and are not told yet."""
            known, found = set(names), [Change(name, before[name], after[name], follow) for name in names]
            for formula in compiled.formulas:
                name = compiled.schema.names[formula.feature]
                if name in moved and name not in told and known & {compiled.schema.names[j] for j in formula.reads}:
                    found.append(Change(name, before[name], after[name], True))
                    known.add(name)
            told.update(known)
            return tuple(found)

        actions = []
        for name in moved:
            if name not in compiled.follow:
                mine = compiled.levers[compiled.schema.index(name)]
                asked = [lever for lever, has in zip(LEVERS, self.levers[row], strict=True) if has and lever in mine]
                actions.append(Action("change", asked[0], changes([name], False)))
        waiting = [name for name in moved if compiled.schema.index(name) in compiled.clock.places]
        if waiting:
            months = int(self.rows(np.array([row])).months_of(record[None, None])[0, 0])
            actions.append(Action("wait", Lever.TIME, changes(waiting, True), months))
        return actions

    @cached_property
    def _own(self) -> Floats:
        """(F, n, 1)"""
        return np.ascontiguousarray(self.origin.T)[:, :, None]

    @cached_property
    def _holes(self) -> Codes:
        """The codes of numbers that lie among what may be suggested of them"""
        codes, numbers = self.policy.codes, self.policy.numbers
        holes = list[int]()
        for j, low, high in zip(numbers.places, self.low.T, self.high.T, strict=True):
            own = codes.numbers[codes.places == j].reshape(-1, 1)
            if ((own >= low) & (own <= high)).any():
                holes.append(int(j))
        return codes.only(holes)

    def completed(self, records: Records, months: NDArray[np.intp] | None) -> tuple[Columns, list[Flags]]:
        """The columns, and for each formula where it cannot be computed (n, c)"""
        values = _columns_of(records)
        np.copyto(values, self._own, where=~self.limits.movable.T[:, :, None])
        columns = Columns(values, self._own, self.policy.codes)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            self._round(values)
            self._wait(columns, months)
            columns = Columns(values, self._own, self.policy.rule_codes)
            pairs = zip(self.policy.formulas, self.known.T, strict=True)
            lost = [formula.fill(columns, known) for formula, known in pairs]
        return columns, lost

    def _round(self, values: Floats) -> None:
        """Brings numbers to the nearest value that may be suggested, or back to the applicant's own; in place."""
        numbers = self.policy.numbers
        if not len(numbers.places):
            return
        here, own = values[numbers.places], self._own[numbers.places]
        step, offset = numbers.step[:, None, None], numbers.offset[:, None, None]
        inside = np.clip(here, self.low.T[:, :, None], self.high.T[:, :, None])
        per_unit, unit = numbers.grid.per_unit[:, None, None], numbers.grid.unit[:, None, None]
        snapped = Grid(unit, per_unit).snap(np.rint((inside - offset) / step) * step + offset)
        way = np.abs(snapped - own)
        back = np.abs(here - own) < np.abs(here - snapped)
        back |= (way < numbers.smallest[:, None, None] * (1 - NOISE)) & ~self.coded.T[:, :, None]
        back &= self.own_fits.T[numbers.places][:, :, None]
        values[numbers.places] = np.where(back | (here == own), own, snapped)
        holes = self._holes
        if len(holes.places):
            coded, mine = values[holes.places], self._own[holes.places]
            values[holes.places] = np.where(holes.found(coded), mine, coded)

    def _wait(self, columns: Columns, months: NDArray[np.intp] | None) -> None:
        """Lets time pass for what it moves; in place."""
        places = self.policy.clock.places
        if not len(places) or not self.horizon.any():
            return
        running = self.policy.clock.meets(columns)
        passed = self._months(columns, running) if months is None else np.minimum(months, self.horizon[:, None])
        later = np.take_along_axis(self.passing, passed[:, None, :], axis=2)
        columns.raw[places] = np.where(running, np.moveaxis(later, 1, 0), columns.origin[places])

    def _months(self, columns: Columns, running: Flags) -> NDArray[np.intp]:
        """(n, c): the wait of the number that needs the longest"""
        places = self.policy.clock.places
        if not len(places):
            return np.zeros(columns.raw.shape[1:], dtype=np.intp)
        ahead = np.moveaxis(self.passing, 0, 2)  # (T, H + 1, n)
        sign = np.sign(ahead[:, -1] - ahead[:, 0])[:, :, None]
        want = np.where(running, columns.raw[places], columns.origin[places])
        want = sign * want - self.policy.clock.noise[:, None, None]
        short = (sign * ahead[:, :, :, None].swapaxes(0, 1)) < want  # (H + 1, T, n, c): not there yet
        wait = short.sum(axis=0, dtype=np.int16).max(axis=0)
        return np.asarray(np.minimum(wait, self.horizon[:, None]), dtype=np.intp)

    def broken_by_kind(self, columns: Columns) -> list[tuple[Implications | Inequalities | Groups, Flags]]:
        """The rules of each kind, and which are broken (R, n, c)"""
        compiled = self.policy
        found: list[tuple[Implications | Inequalities | Groups, Flags]] = []
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if len(compiled.implications.rule):
                found.append((compiled.implications, compiled.implications.broken(columns)))
            if len(compiled.inequalities.rule):
                found.append((compiled.inequalities, compiled.inequalities.broken(columns, self.excess)))
            if len(compiled.groups.rule):
                found.append((compiled.groups, compiled.groups.broken(columns)))
        return found

    def any_broken(self, columns: Columns) -> Flags:
        """(n, c)"""
        broken = np.zeros(columns.raw.shape[1:], dtype=np.bool_)
        for _, flags in self.broken_by_kind(columns):
            broken |= flags.any(axis=0)
        return broken

    def _off_limits(self, columns: Columns, lost: list[Flags]) -> Flags:
        """Whether what follows, or an own value that a request forbids, is out of bounds (n, c)"""
        follow = np.flatnonzero(~self.policy.by_hand)
        off: Flags = self.beyond(columns, follow) | self.new_codes(columns)
        for flags in lost:
            off |= flags
        if not self.own_fits.all():
            off |= (~self.own_fits.T[:, :, None] & ~columns.changed).any(axis=0)
        return off

    def _outside(self, columns: Columns, lost: list[Flags]) -> Flags:
        """Whether any value is not permitted (n, c)"""
        schema, changed = self.policy.schema, columns.changed
        off: Flags = self.beyond(columns, np.arange(len(schema.features))) | self.new_codes(columns)
        for flags in lost:
            off |= flags
        off |= (~changed & ~self.own_fits.T[:, :, None]).any(axis=0)
        steps = Grid.of(np.array([feature.step for feature in schema.features])[:, None, None])
        off |= (changed & (steps.snap(columns.raw) != columns.raw)).any(axis=0)  # also where it has become missing
        return off

    def new_codes(self, columns: Columns) -> Flags:
        """Whether time has brought a number to a code (n, c)"""
        places = self.policy.clock_codes.places
        found = self.policy.clock_codes.found(columns.raw[places]) & columns.changed[places]
        return np.asarray(found.any(axis=0))

    def beyond(self, columns: Columns, places: Places) -> Flags:
        """Whether one of the features at places has a new value that is out of bounds (n, c)"""
        off = np.zeros(columns.raw.shape[1:], dtype=np.bool_)
        if not len(places):
            return off
        values, limits = columns.raw[places], self.limits
        lower, upper = limits.lower.T[places][:, :, None], limits.upper.T[places][:, :, None]
        beyond = ((values < lower) | (values > upper)) & columns.changed[places]
        for row, j in enumerate(places):
            if count := len(self.policy.schema.features[j].categories):
                known = (values[row] >= 0) & (values[row] < count)
                level = np.where(known, values[row], 0.0).astype(np.intp)
                listed = known & np.take_along_axis(limits.levels[:, j], level, axis=1)
                beyond[row] = columns.changed[j] & ~listed
        return np.asarray(beyond.any(axis=0))


_ARRAYS = tuple(part.name for part in fields(Actions) if part.name not in ("policy", "feasible", "limits"))


def _columns_of(records: Records) -> Floats:
    """(n, c, F) -> a copy (F, n, c)"""
    return np.array(np.moveaxis(records, 2, 0), dtype=np.float64, order="C")


def rows_of(columns: Floats) -> Records:
    """(F, n, c) -> a copy (n, c, F)"""
    return np.ascontiguousarray(np.moveaxis(columns, 0, 2))


def join_actions(parts: Sequence[Actions]) -> Actions:
    """The records of several requests under one policy, one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if any(part.policy is not first.policy for part in parts):
        raise ConstraintError("Requests under different policies cannot be searched together; search them one by one.")
    longest = max(part.passing.shape[2] for part in parts)
    wide = [np.pad(part.passing, ((0, 0), (0, 0), (0, longest - part.passing.shape[2])), mode="edge") for part in parts]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS if name != "passing"
    }
    return Actions(
        policy=first.policy,
        feasible=join_feasible([part.feasible for part in parts]),
        limits=join_feasible([part.limits for part in parts]),
        passing=np.concatenate(wide),
        **arrays,
    )
