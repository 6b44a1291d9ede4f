"""The grid of a numeric feature: the multiples of its step, zero among them.

The grid is for values that are suggested. What an applicant has, on the grid or not, stays as it is.

A step such as 0.01 has a whole inverse. The grid is then k / 100 and not k * 0.01, because the quotient is the float
that the text "0.07" reads as, and the product often is not. So a value written with two decimals is on the grid, bit by
bit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_STEPS = 2.0**46
"""A value may lie this many steps from zero: the bits that are left absorb the rounding of scaling and unscaling."""

_TOLERANCE = 1e-9
_ULPS = 8 * float(np.finfo(np.float64).eps)
_SINGLE = 2.0**-24
"""A decimal that was kept in single precision may be off by this share of its size."""
_LEAST_SHARE = 1e-4
"""Noise is at most this share of a step."""


@dataclass(frozen=True, eq=False)
class Grid:
    """The grids of some steps (...): the multiples of unit / per_unit, of which one is 1"""

    unit: NDArray[np.float64]
    per_unit: NDArray[np.float64]

    @classmethod
    def of(cls, step: ArrayLike) -> "Grid":
        step = np.asarray(step, dtype=np.float64)
        inverse = np.rint(1.0 / step)
        decimal = np.abs(inverse * step - 1.0) < _TOLERANCE
        return cls(np.where(decimal, 1.0, step), np.where(decimal, inverse, 1.0))

    def snap(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest grid values.   values (...), NaN stays, broadcast with the steps -> the broadcast shape"""
        snapped: NDArray[np.float64] = np.rint(values * self.per_unit / self.unit) * self.unit / self.per_unit + 0.0
        return snapped

    def settle(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values, rid of float noise: 0.30000000000000004 is 0.3 on a grid of tenths, 0.304 stays.   As `snap`"""
        snapped, size, step = self.snap(values), np.abs(values), self.unit / self.per_unit
        noise = np.maximum(_TOLERANCE * step + _ULPS * size, np.minimum(_SINGLE * size, _LEAST_SHARE * step))
        settled: NDArray[np.float64] = np.where(np.abs(values - snapped) <= noise, snapped, values)
        return settled

    def at(self, rows: NDArray[np.intp]) -> "Grid":
        return Grid(self.unit[rows], self.per_unit[rows])


def snap(values: ArrayLike, step: ArrayLike) -> NDArray[np.float64]:
    """The nearest grid values for a step that is met once; for one that comes again, keep its `Grid`."""
    return Grid.of(step).snap(np.asarray(values, dtype=np.float64))


def snap_value(value: float, step: float) -> float:
    """`snap` for one finite number, the same bits without the price of an array."""
    inverse = round(1.0 / step)
    if abs(inverse * step - 1.0) < _TOLERANCE:
        return round(value * inverse) / inverse
    return round(value / step) * step


def settle(values: ArrayLike, step: ArrayLike) -> NDArray[np.float64]:
    """`Grid.settle` for a step that is met once."""
    return Grid.of(step).settle(np.asarray(values, dtype=np.float64))


def settle_value(value: float, step: float) -> float:
    """`settle` for one finite number."""
    snapped = snap_value(value, step)
    noise = max(_TOLERANCE * step + _ULPS * abs(value), min(_SINGLE * abs(value), _LEAST_SHARE * step))
    return snapped if abs(value - snapped) <= noise else value


def plain(value: float) -> str:
    """A number as a person writes it: no exponent and no ".0" for a whole one."""
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)


def snap_up(value: float, step: float) -> float:
    """The least grid value that is not below `value`."""
    snapped = snap_value(value, step)
    return snapped if snapped >= value - _TOLERANCE * step else snap_value(snapped + step, step)


def snap_down(value: float, step: float) -> float:
    """The greatest grid value that is not above `value`."""
    return -snap_up(-value, step) + 0.0
