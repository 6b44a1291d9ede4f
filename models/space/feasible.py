"""What each record may become: the compiled form of the schema's and the request's constraints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Records

Points = TypeVar("Points")


@dataclass(frozen=True, eq=False)
class Bounds(Generic[Points]):
    """A box in encoded space: lower and upper (..., D), equal where a column is frozen; arrays or tensors."""

    lower: Points
    upper: Points


class Rules(Protocol):
    """The rules between features for n records; `Actions` of models/space/actions.py."""

    def rows(self, rows: NDArray[np.intp]) -> Self: ...

    def joined(self, others: Sequence[Self]) -> Self:
        """These, and then those of other requests under the same policy"""
        ...

    def freeze(self, mask: NDArray[np.bool_]) -> Self: ...

    @property
    def by_hand(self) -> NDArray[np.bool_]:
        """Which features somebody moves (F,); the others follow"""
        ...

    @property
    def horizon(self) -> NDArray[np.intp]:
        """The most months that each may wait (n,)"""
        ...

    def settle(self, records: Records, months: NDArray[np.intp] | None) -> tuple[Records, NDArray[np.bool_]]:
        """records (n, c, F) -> what they become when what follows from others is computed, and which are allowed

        months (n, c): how long each waits; None: as long as its values ask for
        """
        ...

    def allowed(self, records: Records) -> NDArray[np.bool_]:
        """records (n, c, F) -> which break no rule at all (n, c)"""
        ...

    def count_actions(self, records: Records) -> NDArray[np.intp]:
        """records (n, c, F) -> how many things there are to do (n, c)"""
        ...

    def actions_of(self, row: int, record: Records) -> Sequence[Any]:
        """What the applicant of a row has to do for an allowed record (F,)"""
        ...


@dataclass(frozen=True, eq=False)
class FeasibleSet:
    """The values that n records may take, feature by feature, and the rules between features.

    origin   (n, F)        the records that the constraints were compiled for
    lower    (n, F)        least raw value, on the grid; a frozen feature has its own value here and in upper
    upper    (n, F)        greatest raw value
    levels   (n, F, Kmax)  permitted categories; False beyond a feature's own, and for every numeric feature
    movable  (n, F)        False where the only permitted value is the one it has
    missing  (n, F)        whether the feature may stay missing; False where it is not missing
    most     (n,)          how many features may change at the most; None: as many as like. What moves together by
                           time or by a formula is one
    weights  (n, F)        how hard each feature is to change: its share of the cost is so many times as large; None: 1
    rules                  None: no rule is between features
    """

    origin: Records
    lower: Records
    upper: Records
    levels: NDArray[np.bool_]
    movable: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    most: NDArray[np.intp] | None = None
    weights: Floats | None = None
    rules: Rules | None = None

    def __len__(self) -> int:
        return len(self.origin)

    def row(self, index: int) -> "FeasibleSet":
        """The constraints of one record, as a batch of one."""
        return self.rows(np.array([index]))

    def repeat(self, count: int) -> "FeasibleSet":
        """Each row `count` times in a row, for `count` candidates a record (n * count rows)."""
        return self.rows(np.repeat(np.arange(len(self)), count))

    def rows(self, rows: NDArray[np.intp]) -> "FeasibleSet":
        """rows (m,) -> m rows; categories that all rows share stay one copy"""
        shared = len(self) > 0 and self.levels.strides[0] == 0
        levels = np.broadcast_to(self.levels[0], (len(rows), *self.levels.shape[1:])) if shared else self.levels[rows]
        return FeasibleSet(
            self.origin[rows],
            self.lower[rows],
            self.upper[rows],
            levels,
            self.movable[rows],
            self.missing[rows],
            None if self.most is None else self.most[rows],
            None if self.weights is None else self.weights[rows],
            None if self.rules is None else self.rules.rows(rows),
        )

    def settle(self, records: Records, months: NDArray[np.intp] | None = None) -> tuple[Records, NDArray[np.bool_]]:
        """records (n, c, F), each value allowed by itself -> what they become by the rules (n, c, F), and which of them
        break none and change no more than may change (n, c)"""
        fits = np.ones(records.shape[:2], dtype=np.bool_)
        if self.rules is not None:
            records, fits = self.rules.settle(records, months)
        return records, fits if self.most is None else fits & (self.count_changes(records) <= self.most[:, None])

    def by_hand(self) -> NDArray[np.bool_]:
        """Which features somebody moves (F,); the others follow by time or by a formula"""
        return np.ones(self.origin.shape[1], dtype=np.bool_) if self.rules is None else self.rules.by_hand

    def horizon(self) -> NDArray[np.intp]:
        """The most months that each may wait (n,)"""
        return np.zeros(len(self), dtype=np.intp) if self.rules is None else self.rules.horizon

    def count_changes(self, records: Records) -> NDArray[np.intp]:
        """records (n, c, F) -> how many changes each asks for (n, c)"""
        if self.rules is None:
            return np.asarray(np.count_nonzero(~same(records, self.origin[:, None]), axis=2))
        return self.rules.count_actions(records)

    def limits(self) -> NDArray[np.intp]:
        """How many features may change at the most (n,), all of them where there is no limit"""
        return np.full(len(self), self.origin.shape[1]) if self.most is None else self.most

    def hardness(self) -> Floats:
        """The weights (n, F)"""
        return np.ones(self.origin.shape) if self.weights is None else self.weights

    def own_fits(self) -> NDArray[np.bool_]:
        """Whether the origin's own values are allowed (n, F): a range may ask for a change."""
        gone = np.isnan(self.origin)
        categorical = self.levels.any(axis=2)
        level = np.where(gone | ~categorical, 0.0, self.origin).astype(np.intp)
        listed = np.take_along_axis(self.levels, level[:, :, None], axis=2)[:, :, 0]
        inside = (self.origin >= self.lower) & (self.origin <= self.upper)
        fits: NDArray[np.bool_] = np.where(gone, self.missing, np.where(categorical, listed, inside))
        return fits | ~self.movable

    def freeze(self, mask: NDArray[np.bool_]) -> "FeasibleSet":
        """A copy with the features of mask (n, F) frozen at their own values, which must be allowed."""
        return replace(
            self,
            lower=np.where(mask, self.origin, self.lower),
            upper=np.where(mask, self.origin, self.upper),
            movable=self.movable & ~mask,
            missing=self.missing | (mask & np.isnan(self.origin)),
            rules=None if self.rules is None else self.rules.freeze(mask),
        )


def same(values: Records, others: Records) -> NDArray[np.bool_]:
    """Where they are equal, missing equal to missing."""
    equal: NDArray[np.bool_] = (values == others) | (np.isnan(values) & np.isnan(others))
    return equal


def join_rules(parts: Sequence[Rules | None]) -> Rules | None:
    """The rules of several requests of one model: all of them have some, or none has"""
    known = [part for part in parts if part is not None]
    return known[0].joined(known[1:]) if known else None
