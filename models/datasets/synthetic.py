"""The paper's four plane data sets (appendix, "Dataset Description") and four blobs for more than two classes.

Each draws from a RandomState in the order of the paper's code, so that seed s gives what that code gives after
`np.random.seed(s)`. Features are x1 and x2, the label is `label`.
"""

import numpy as np
import pandas as pd
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.datasets import make_moons

from ..errors import ConfigError
from .dataset import Dataset

PAPER_ROWS = 3000
_LEAST_ROWS = 18


def moons(rows: int = PAPER_ROWS, seed: int = 0) -> Dataset:
    """Two interleaving half circles."""
    _check_rows("moons", rows)
    points, labels = make_moons(n_samples=rows, noise=0.05, random_state=seed)
    return _dataset("moons", points, labels)


def circles(rows: int = PAPER_ROWS, seed: int = 0) -> Dataset:
    """Two concentric circles, the inner one of half the radius."""
    _check_rows("circles", rows)
    random, half = RandomState(seed), (rows + 1) // 2
    angles = 2 * np.pi * random.rand(half)
    outer = np.column_stack([np.cos(angles), np.sin(angles)])
    points = np.vstack([outer, 0.5 * outer])[:rows] + 0.05 * random.randn(rows, 2)
    return _dataset("circles", points, np.arange(rows) // half)


def spirals(rows: int = PAPER_ROWS, seed: int = 0) -> Dataset:
    """Two intertwined spirals of two and a half turns."""
    _check_rows("spirals", rows)
    random, half = RandomState(seed), (rows + 1) // 2
    angles = np.sqrt(random.rand(half)) * 2.5 * 2 * np.pi
    radii = angles / (2.5 * 2 * np.pi) * 5
    first = np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])
    second = np.column_stack([radii * np.cos(angles + np.pi), radii * np.sin(angles + np.pi)])
    points = np.vstack([first, second])[:rows] + 0.1 * random.randn(rows, 2)
    return _dataset("spirals", points, np.arange(rows) // half)


def chessboard(rows: int = PAPER_ROWS, seed: int = 0) -> Dataset:
    """Nine clusters on a 3 x 3 board; as in the paper's code each has rows // 9 points, so that 3,000 give 2,997."""
    _check_rows("chessboard", rows)
    random, each = RandomState(seed), rows // 9
    places = [(i, j) for i in range(3) for j in range(3)]
    centres = [np.array([(i + 0.5) / 3 * 6 - 3, (j + 0.5) / 3 * 6 - 3]) for i, j in places]
    points = np.vstack([centre + 0.1 * random.randn(each, 2) for centre in centres])
    return _dataset("chessboard", points, np.repeat([(i + j) % 2 for i, j in places], each))


def four_blobs(rows: int = 1200, seed: int = 0) -> Dataset:
    """Four classes, one in each corner of a square."""
    _check_rows("four_blobs", rows)
    labels = np.arange(rows) % 4
    corners = np.array([[-2.0, -2.0], [-2.0, 2.0], [2.0, -2.0], [2.0, 2.0]])
    points = corners[labels] + 0.7 * RandomState(seed).randn(rows, 2)
    return _dataset("four_blobs", points, labels)


def _dataset(name: str, points: NDArray[np.float64], labels: NDArray[np.int64]) -> Dataset:
    """points (n, 2), labels (n,)"""
    return Dataset(name, pd.DataFrame({"x1": points[:, 0], "x2": points[:, 1], "label": labels}), "label")


def _check_rows(name: str, rows: int) -> None:
    if rows < _LEAST_ROWS:
        raise ConfigError(f"The data set '{name}' cannot have {rows} rows; ask for {_LEAST_ROWS} or more.")
