"""What each record may become: the compiled form of the schema's and the request's constraints."""

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Records

Points = TypeVar("Points")


@dataclass(frozen=True, eq=False)
class Bounds(Generic[Points]):
    """A box in encoded space: lower and upper (..., D), equal where a column is frozen; arrays or tensors."""

    lower: Points
    upper: Points


@dataclass(frozen=True, eq=False)
class FeasibleSet:
    """The values that n records may take, feature by feature.

    origin   (n, F)        the records that the constraints were compiled for
    lower    (n, F)        least raw value, on the grid; a frozen feature has its own value here and in upper
    upper    (n, F)        greatest raw value
    levels   (n, F, Kmax)  permitted categories; False beyond a feature's own, and for every numeric feature
    movable  (n, F)        False where the only permitted value is the one it has
    missing  (n, F)        whether the feature may stay missing; False where it is not missing
    most     (n,)          how many features may change at the most; None: as many as like
    weights  (n, F)        how hard each feature is to change: its share of the cost is so many times as large; None: 1
    """

    origin: Records
    lower: Records
    upper: Records
    levels: NDArray[np.bool_]
    movable: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    most: NDArray[np.intp] | None = None
    weights: Floats | None = None

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
        )

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
        )
