"""Candidates that break a rule, brought back towards the applicant's record until they break none.

A record that stays as it is breaks nothing, so there is always a way back. Numbers whose changes break an inequality
are shortened by as much as it takes. Of other rules the consequence goes back first, then what it follows from.
"""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Records
from ..data.grid import Grid
from .actions import Actions, rows_of
from .compiled_policy import NOISE
from .rules import Flags, Groups, Implications, Inequalities

MOST_SHORTENED = 2
"""So many times changes are shortened; what still breaks a rule then goes back whole."""


def repair(actions: Actions, records: Records, months: NDArray[np.intp] | None = None) -> tuple[Records, Flags]:
    """As `Actions.settle`, and brought back where a rule is broken.   records (n, c, F) -> (n, c, F), allowed (n, c)

    What is not allowed even then has to change for the request's sake, and no way was found.
    """
    settled, ok = actions.settle(records, months)
    row, candidate = np.nonzero(~ok)
    if len(row):
        repaired, fine = _brought_back(actions.rows(row), settled[row, candidate][:, None])
        settled[row, candidate], ok[row, candidate] = repaired[:, 0], fine[:, 0]
    return settled, ok


def _brought_back(actions: Actions, records: Records) -> tuple[Records, Flags]:
    """records (n, 1, F), complete and not allowed -> (n, 1, F), allowed (n, 1)"""
    found, fine, active = records.copy(), np.zeros((len(records), 1), dtype=np.bool_), np.arange(len(records))
    for turn in range(records.shape[2] + MOST_SHORTENED):
        here = actions.rows(active)
        settled, ok = here.settle(_Turn(here, found[active], turn < MOST_SHORTENED).back())
        stuck = (settled == found[active]) | (np.isnan(settled) & np.isnan(found[active]))
        found[active], fine[active] = settled, ok
        active = active[~ok[:, 0] & ~stuck.all(axis=(1, 2))]
        if not len(active):
            break
    return found, fine


class _Turn:
    """One turn: what goes back of each of n candidates, and what is shortened."""

    def __init__(self, actions: Actions, records: Records, shorten: bool) -> None:
        self.actions, self.compiled, self.shorten = actions, actions.policy, shorten
        self.columns, self.lost = actions.completed(records, None)
        self.values = self.columns.raw.copy()
        self.gone = np.zeros(self.values.shape, dtype=np.bool_)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            self.sides = self.compiled.inequalities.sides(self.columns)

    def back(self) -> Records:
        """-> (n, 1, F)"""
        self._followers()
        for rules, flags in self.actions.broken_by_kind(self.columns):
            kind = {Implications: self._implication, Inequalities: self._inequality, Groups: self._group}[type(rules)]
            for row in np.flatnonzero(flags.any(axis=(1, 2))):
                kind(int(row), flags[row])
        return rows_of(np.where(self.gone, self.columns.origin, self.values))

    def _revert(self, features: NDArray[np.intp] | list[int], where: Flags) -> None:
        """Lets all that moves these features go back, where (n, 1) or (features, n, 1)"""
        each = np.broadcast_to(where, (len(features), *self.values.shape[1:]))
        for j, flags in zip(features, each, strict=True):
            self.gone |= self.compiled.roots[j][:, None, None] & flags

    def _followers(self) -> None:
        for formula, flags in zip(self.compiled.formulas, self.lost, strict=True):
            self._revert(list(formula.reads), flags)
        for j in np.flatnonzero(~self.compiled.by_hand):
            self._revert([int(j)], self.actions.beyond(self.columns, np.array([j])))
        self._revert(self.compiled.clock.places[:1], self.actions.new_codes(self.columns))

    def _implication(self, row: int, flags: Flags) -> None:
        implications, changed = self.compiled.implications, self.columns.changed
        target, named = int(implications.target[row]), np.unique(implications.named[:, row])
        self._revert([target], flags & changed[target])
        self._revert(named, flags & ~changed[target] & changed[named])

    def _group(self, row: int, flags: Flags) -> None:
        """The first feature that changes stays so."""
        single, timed = self.compiled.groups.members[row]
        taken = np.zeros(flags.shape, dtype=np.bool_)
        for j in single:
            self._revert([int(j)], flags & taken)
            taken |= self.columns.changed[j]
        self._revert(timed, flags & taken)

    def _inequality(self, row: int, flags: Flags) -> None:
        inequalities = self.compiled.inequalities
        if row < len(inequalities.left.constant):
            if self.shorten:
                flags = flags & ~self._shortened(row, flags)
            self._revert(np.unique(inequalities.left.places[:, row]), flags)
        else:
            names = inequalities.named(row - len(inequalities.left.constant))
            self._revert([inequalities.index[name] for name in names], flags)

    def _shortened(self, row: int, flags: Flags) -> Flags:
        """Shortens the changes that break a sum's inequality; -> where that is enough (n, 1)"""
        inequalities = self.compiled.inequalities
        places = inequalities.left.places[:, row]
        factors = (inequalities.left.factors - inequalities.right.factors)[:, row]
        scale, own = self.columns.scale[places], self.columns.origin_scale[places]
        left, right = self.sides
        need = left[row] - right[row] - self.actions.excess[:, row, None]
        pull = factors[:, None, None] * (scale - own)
        pull = np.where((pull > 0) & self.compiled.by_hand[places][:, None, None], pull, 0.0)
        total = pull.sum(axis=0)
        enough: Flags = flags & (total >= need) & (total > 0)
        kept = np.where(enough, 1 - need / np.where(total > 0, total, 1.0), 1.0)
        for k, j in enumerate(places):
            shorter = self._towards(int(j), own[k], own[k] + kept * (scale[k] - own[k]))
            self.values[j] = np.where(enough & (pull[k] > 0), shorter, self.values[j])
        return enough

    def _towards(self, j: int, own: Floats, wanted: Floats) -> Floats:
        """wanted (n, 1) on the grid of feature j, rounded towards the own value (n, 1)"""
        step, offset = self.compiled.steps_of[:, j]
        count = (wanted - offset) / step
        rounded = np.where(wanted > own, np.floor(count + NOISE), np.ceil(count - NOISE)) * step + offset
        snapped = Grid.of(self.compiled.schema.features[j].step).snap(rounded)
        return np.where((snapped > own) == (wanted > own), snapped, own)
