"""Rows drawn by class, so that a rare class is never lost."""

import numpy as np
from numpy.typing import NDArray

from models.ensemble.member import Codes

Rows = NDArray[np.intp]

LEAST = 3
"""Rows of a class that a subsample keeps: one for each fold of a cross-validation."""


def stratified_rows(y: Codes, limit: int, seed: int) -> Rows:
    """About `limit` of the n rows in ascending order, each class in its share and with at least three rows; y (n,)."""
    if len(y) <= limit:
        return np.arange(len(y))
    return np.sort(
        np.concatenate([rows[: max(LEAST, round(len(rows) * limit / len(y)))] for rows in _shuffled(y, seed)])
    )


def hold_out(y: Codes, share: float, seed: int) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to validate on, both ascending; a class keeps at least one row to learn from."""
    by_class = _shuffled(y, seed)
    held = [min(len(rows) - 1, max(1, round(len(rows) * share))) for rows in by_class]
    learn = np.concatenate([rows[count:] for rows, count in zip(by_class, held, strict=True)])
    validate = np.concatenate([rows[:count] for rows, count in zip(by_class, held, strict=True)])
    return np.sort(learn), np.sort(validate)


def _shuffled(y: Codes, seed: int) -> list[Rows]:
    """The rows of each class that occurs, shuffled."""
    generator = np.random.default_rng(seed)
    return [generator.permutation(np.flatnonzero(y == code)) for code in np.unique(y)]
