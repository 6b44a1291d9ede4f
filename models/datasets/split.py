"""Training, validation and test rows, 6:2:2 in every class."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.errors import DataError

_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers in ascending order; together they are all rows, each one once."""

    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]


def split(labels: NDArray[np.int64], seed: int) -> Split:
    """labels (n,), three rows or more a class; a class is never absent from a part, however rare it is"""
    random = np.random.default_rng(seed)
    train: list[NDArray[np.intp]] = []
    validation: list[NDArray[np.intp]] = []
    test: list[NDArray[np.intp]] = []
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        if len(rows) < 3:
            raise DataError(f"Class {label} has {len(rows)} rows; a split in three needs at least 3.")
        size = max(1, round(_SHARE * len(rows)))
        test.append(rows[:size])
        validation.append(rows[size : 2 * size])
        train.append(rows[2 * size :])
    return Split(*(np.sort(np.concatenate(part)) for part in (train, validation, test)))
