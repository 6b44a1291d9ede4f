"""What an action policy leaves of a request's constraints, record by record: the makings of `Actions`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..data.policy import Lever
from ..data.records import from_records
from ..data.schema import Direction
from ..errors import ConstraintError
from .actions import LEVERS, Actions
from .compiled_policy import NOISE, CompiledPolicy, time_values
from .constraints import DEFAULT_LEVERS, MOST_MONTHS
from .feasible import FeasibleSet
from .rules import Columns, Flags


def bind(
    compiled: CompiledPolicy, base: FeasibleSet, levers: Sequence[Lever] = DEFAULT_LEVERS, horizon_months: int = 12
) -> tuple[Actions, list[ConstraintError | None]]:
    """What a policy leaves of `base`, a request's constraints on n records, and the error of each record.

    base  compiled with `compiled.schema`, for which what follows is not frozen
    """
    if not 0 <= horizon_months <= MOST_MONTHS:
        raise ConstraintError(f"The horizon is {horizon_months} months; give 0 to {MOST_MONTHS}.")
    if not levers or not set(levers) <= set(LEVERS):
        raise ConstraintError(f"The levers are {', '.join(levers) or 'none'}; choose from {', '.join(LEVERS)}.")
    return _Binding(compiled, base, frozenset(levers), horizon_months if Lever.TIME in levers else 0).bind()


class _Binding:
    """Works out, step by step, what n records may become: its arrays begin as those of `base` and get narrower."""

    def __init__(self, compiled: CompiledPolicy, base: FeasibleSet, levers: frozenset[Lever], months: int) -> None:
        self.compiled, self.base, self.levers, self.months = compiled, base, levers, months
        self.own_fits = base.own_fits()
        self.lower, self.upper = base.lower.copy(), base.upper.copy()
        self.levels = base.levels if not compiled.steps else base.levels.copy()
        self.frozen = ~base.movable | self._unmoved()
        own = np.ascontiguousarray(base.origin.T)[:, :, None]
        self.own = Columns(own, own, compiled.codes)

    def bind(self) -> tuple[Actions, list[ConstraintError | None]]:
        with np.errstate(invalid="ignore"):
            low, high, coded = self._numbers()
        self._categories()
        passing, horizon = self._clock()
        base, compiled = self.base, self.compiled
        dead = self.frozen & ~self.own_fits
        dead[:, compiled.derived] = False
        frozen, gone = self.frozen, np.isnan(base.origin)
        lower, upper = (np.where(frozen, base.origin, ends) for ends in (self.lower, self.upper))
        feasible = FeasibleSet(base.origin, lower, upper, self.levels, ~frozen, base.missing | (frozen & gone))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            actions = Actions(
                policy=compiled,
                feasible=feasible.freeze(self._derived()),
                limits=self._limits(feasible),
                own_fits=self.own_fits,
                levers=np.tile([lever in self.levers for lever in LEVERS], (len(base), 1)),
                low=low,
                high=high,
                coded=coded,
                horizon=horizon,
                passing=passing,
                excess=compiled.inequalities.limits(self.own.origin, compiled.codes),
                known=np.array([formula.known(self.own.origin, compiled.codes) for formula in compiled.formulas])
                .reshape(-1, len(base))
                .T,
            )
        return actions, self._errors(dead)

    def _derived(self) -> Flags:
        derived = np.zeros(self.base.origin.shape, dtype=np.bool_)
        derived[:, self.compiled.derived] = True
        return derived

    def _unmoved(self) -> Flags:
        """(n, F): what none of the request's levers moves"""
        able = [bool(set(mine) & self.levers) for mine in self.compiled.levers]
        able = [
            moves and (lever != (Lever.TIME,) or self.months > 0)
            for moves, lever in zip(able, self.compiled.levers, strict=True)
        ]
        unmoved = np.tile(~np.array(able), (len(self.base), 1))
        unmoved[:, self.compiled.derived] = False
        return unmoved

    def _limits(self, feasible: FeasibleSet) -> FeasibleSet:
        """Where what follows may lie: anywhere that the request permits."""
        base, follow = self.base, ~self.compiled.by_hand
        lower, upper = np.where(follow, base.lower, feasible.lower), np.where(follow, base.upper, feasible.upper)
        return replace(feasible, lower=lower, upper=upper)

    def _numbers(self) -> tuple[Floats, Floats, Flags]:
        """The ends (n, P) of what may be suggested, and where the applicant has a code (n, P)"""
        numbers, places = self.compiled.numbers, self.compiled.numbers.places
        own = self.base.origin[:, places]
        coded = np.isnan(self.own.scale[places, :, 0].T) & ~np.isnan(own)
        lower = np.where(coded, numbers.lower, np.fmin(numbers.lower, own))
        upper = np.where(coded, numbers.upper, np.fmax(numbers.upper, own))
        low, high = np.fmax(self.lower[:, places], lower), np.fmin(self.upper[:, places], upper)
        up = np.array([move is Direction.UP for move in numbers.move], dtype=np.bool_)
        down = np.array([move is Direction.DOWN for move in numbers.move], dtype=np.bool_)
        low = np.where(up & ~coded, np.fmax(low, own), low)
        high = np.where(down & ~coded, np.fmin(high, own), high)
        reach = np.fmin(numbers.most, numbers.share * np.abs(own)) + NOISE * numbers.step
        low = np.where(coded, low, np.fmax(low, own - reach))
        high = np.where(coded, high, np.fmin(high, own + reach))
        low = numbers.grid.snap(np.ceil((low - numbers.offset) / numbers.step - NOISE) * numbers.step + numbers.offset)
        high = numbers.grid.snap(
            np.floor((high - numbers.offset) / numbers.step + NOISE) * numbers.step + numbers.offset
        )
        fits = self.own_fits[:, places]
        far = np.fmax(high - own, own - low) >= numbers.smallest * (1 - NOISE)
        held = (coded & ~numbers.leave_codes) | (np.isnan(own) & (up | down)) | (low > high)
        held |= ~far & ~coded & ~np.isnan(own) & fits
        self.frozen[:, places] |= held
        stays = fits & ~np.isnan(own)
        self.lower[:, places] = np.where(stays, np.fmin(low, own), low)
        self.upper[:, places] = np.where(stays, np.fmax(high, own), high)
        return low, high, coded

    def _categories(self) -> None:
        for j, may in self.compiled.steps:
            own, count = self.base.origin[:, j], len(may)
            gone = np.isnan(own)
            level = np.where(gone, 0.0, own).astype(np.intp)
            self.levels[:, j, :count] &= may[level]
            others = self.levels[:, j].copy()
            others[np.arange(len(own)), level] = False
            self.frozen[:, j] |= gone | (self.own_fits[:, j] & ~others.any(axis=1)) | ~self.levels[:, j].any(axis=1)

    def _clock(self) -> tuple[Floats, NDArray[np.intp]]:
        """What time makes of numbers (n, T, H + 1), and the longest wait (n,)"""
        clock, base = self.compiled.clock, self.base
        own = base.origin[:, clock.places]
        runs = ~np.isnan(self.own.scale[clock.places, :, 0].T) & clock.meets(self.own)[:, :, 0].T
        passing = np.repeat(own[:, :, None], self.months + 1, axis=2)
        possible = np.ones((len(base), self.months + 1), dtype=np.bool_)
        for t, j in enumerate(clock.places):
            feature, mine = self.compiled.schema.features[j], own[:, t, None]
            moved = time_values(clock.rules[t], feature.step, own[:, t], self.months)
            moved = np.clip(moved, np.fmin(feature.lower, mine), np.fmax(feature.upper, mine))
            passing[:, t] = np.where(runs[:, t, None], moved, mine)
            if not clock.conditions[t]:
                inside = (passing[:, t] >= base.lower[:, j, None]) & (passing[:, t] <= base.upper[:, j, None])
                same = (passing[:, t] == mine) | np.isnan(mine)
                possible &= np.where(same, self.own_fits[:, j, None], inside & base.movable[:, j, None])
        horizon = np.where(possible, np.arange(self.months + 1), 0).max(axis=1)
        for t, j in enumerate(clock.places):
            end = np.take_along_axis(passing[:, t], horizon[:, None], axis=1)[:, 0]
            self.frozen[:, j] |= ~runs[:, t] | (end == own[:, t])
            self.lower[:, j] = np.fmax(base.lower[:, j], np.fmin(own[:, t], end))
            self.upper[:, j] = np.fmin(base.upper[:, j], np.fmax(own[:, t], end))
            self.frozen[:, j] |= self.lower[:, j] > self.upper[:, j]
        return passing, horizon

    def _errors(self, dead: Flags) -> list[ConstraintError | None]:
        errors: list[ConstraintError | None] = [None] * len(dead)
        for row, j in zip(*np.nonzero(dead), strict=True):
            if errors[row] is None:
                feature = self.compiled.schema.features[j]
                value = from_records(self.compiled.schema, self.base.origin[[row]])[0][feature.name]
                fact = (
                    f"'{feature.name}' is {value!r} and {self._reason(int(j))}, but the request asks for another value"
                )
                errors[row] = ConstraintError(f"Row {row + 1}: {fact}; leave that range out or change the levers.")
        return errors

    def _reason(self, j: int) -> str:
        mine = self.compiled.levers[j]
        if mine == (Lever.NOBODY,):
            return "nobody can move it"
        if not set(mine) & self.levers:
            return f"only {' or '.join(mine)} can move it"
        if mine == (Lever.TIME,):
            return f"{self.months} months do not bring it there"
        return "the policy leaves it nothing within the range"
