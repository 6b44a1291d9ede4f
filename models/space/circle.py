"""Categories as points on the unit circle: level k of K stands at the angle 2*pi*k/K (paper, appendix; TabRep)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_TURN = 2.0 * np.pi


@dataclass(frozen=True, eq=False)
class Circles:
    """C categorical features side by side.

    categories (C,)  the number of categories of each
    nullable   (C,)  whether one more level, after the last category, stands for a missing value
    """

    categories: NDArray[np.intp]
    nullable: NDArray[np.bool_]

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """(C,) levels of each circle, the missing one included"""
        return self.categories + self.nullable

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """(C, Kmax, 2) the point of each level

        A table and not a call a record: a vectorised cosine may round by where the value stands in the array.
        """
        angles = np.arange(self.counts.max(initial=0)) * (_TURN / self.counts[:, None])
        return np.stack([np.cos(angles), np.sin(angles)], axis=-1)

    def points(self, levels: NDArray[np.intp]) -> NDArray[np.float64]:
        """levels (n, C) -> points (n, C, 2)"""
        points: NDArray[np.float64] = self.table[np.arange(len(self.counts)), levels]
        return points

    def nearest(
        self, points: NDArray[np.float64], permitted: NDArray[np.bool_] | None, missing: NDArray[np.bool_]
    ) -> NDArray[np.intp]:
        """The nearest permitted level of each point.

        points (n, C, 2), anywhere in the plane; permitted (n, C, K) categories, None for all; missing (n, C) whether
        the missing level is permitted -> (n, C)
        """
        angles = np.arctan2(points[..., 1], points[..., 0])
        levels: NDArray[np.intp] = np.rint(angles * (self.counts / _TURN)).astype(np.intp) % self.counts
        refused = (levels == self.categories) & ~missing
        if permitted is not None:
            category = np.minimum(levels, self.categories - 1)[..., None]
            refused |= (levels < self.categories) & ~np.take_along_axis(permitted, category, axis=2)[..., 0]
        rows, which = np.nonzero(refused)
        if len(rows):
            choice = self._choice(which, None if permitted is None else permitted[rows, which], missing[rows, which])
            levels[rows, which] = self._nearest_of(angles[rows, which], which, choice)
        return levels

    def _choice(
        self, which: NDArray[np.intp], permitted: NDArray[np.bool_] | None, missing: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """which (m,) of the C features, permitted (m, K), missing (m,) -> the levels to choose from (m, Kmax)"""
        levels, categories = np.arange(self.counts.max()), self.categories[which]
        choice = levels < categories[:, None]
        if permitted is not None:
            choice[:, : permitted.shape[1]] &= permitted[:, : choice.shape[1]]
        choice |= (levels == categories[:, None]) & (missing & self.nullable[which])[:, None]
        return choice

    def _nearest_of(
        self, angles: NDArray[np.float64], which: NDArray[np.intp], choice: NDArray[np.bool_]
    ) -> NDArray[np.intp]:
        """angles (m,), which (m,), choice (m, Kmax) with a True in each row -> levels (m,)"""
        closeness = np.cos(angles[:, None] - np.arange(choice.shape[1]) * (_TURN / self.counts[which, None]))
        nearest: NDArray[np.intp] = np.where(choice, closeness, -2.0).argmax(axis=1)
        return nearest
