"""What a rough answer still lacks, learned from the points where the true answer is known: kernel ridge regression.

The plausible models say roughly how the black boxes vote; the answers that were bought say exactly, at a few points.
Near those points the difference is carried over to others. How near, and how much of it, is decided by leaving one out.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from models.gaussian import kernel_sums, squared_distances
from models.matrix import Encoded

WIDTHS = (0.03, 0.06, 0.1, 0.2, 0.35)
"""The widths that are tried, in medians of the distance between two known points."""
RIDGES = (0.5, 0.1)
"""And how strongly the weights are held at nothing."""
HELPS = 0.97
"""The residuals must leave no more than this share of the squared error."""
LEAST = 8
"""With fewer known points than this nothing is carried over."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Residuals:
    """Known points (q, D), the kernel's width, and the weights (q, K) of each."""

    points: Encoded
    width: float
    weights: Floats

    def at(self, points: Encoded) -> Floats:
        """points (n, D) -> what is to be added there (n, K)"""
        return kernel_sums(points, self.points, self.weights, 0.5 / self.width**2)


def fit_residuals(points: Encoded, lacking: Floats) -> Residuals | None:
    """points (q, D), lacking (q, K) there -> the residuals; None where leaving one out says that they do not help"""
    if len(points) < LEAST:
        return None
    squares = squared_distances(points, points)
    scale = float(np.sqrt(np.median(squares[np.triu_indices(len(points), 1)])))
    best, least = None, HELPS * float((lacking**2).sum())
    for share, ridge in product(WIDTHS, RIDGES) if scale > 0 else ():
        kernel = np.exp(squares / (-2.0 * (share * scale) ** 2))
        inverse = np.linalg.inv(kernel + ridge * np.eye(len(points)))
        # The error at a point that was left out, in closed form: the weight divided by the inverse's diagonal.
        weights = inverse @ lacking
        error = float(((weights / np.diag(inverse)[:, None]) ** 2).sum())
        if error < least:
            best, least = Residuals(points, share * scale, weights), error
    return best
