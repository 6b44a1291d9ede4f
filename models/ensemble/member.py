"""One model of the local ensemble: a recipe (hyperparameters) that is fitted into a member (a trained model).

Members see encoded points (n, D), as in the paper; class codes are 0..K-1 and every class occurs in training.
"""

from pathlib import Path
from typing import ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from models.errors import DataError
from models.matrix import Encoded

Probabilities: TypeAlias = NDArray[np.float64]
"""(n, K), rows sum to 1."""

Codes: TypeAlias = NDArray[np.int64]
"""(n,) class codes, 0..K-1."""


class Member(Protocol):
    """A trained model."""

    name: ClassVar[str]

    @property
    def width(self) -> int:
        """D, the number of encoded columns that it was trained on."""
        ...

    def predict_proba(self, x: Encoded) -> Probabilities:
        """x (n, D) -> (n, K)"""
        ...

    def save(self, folder: Path) -> None:
        """Write the model's files into a folder that exists."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; ArtifactError where a file is missing or damaged."""
        ...


class Recipe(Protocol):
    """The hyperparameters of a model; frozen, so that a grid of them is a tuple."""

    def fit(self, x: Encoded, y: Codes, classes: int, seed: int) -> Member:
        """x (n, D), y (n,) in 0..classes-1 -> the same member for the same seed"""
        ...


def require_every_class(y: Codes, classes: int) -> None:
    """A model that never saw a class cannot give its probability: y (n,) must hold each of 0..classes-1 twice."""
    counts = np.bincount(y, minlength=classes)
    if len(counts) > classes:
        raise DataError(f"Class code {len(counts) - 1} is not one of the {classes} classes 0 to {classes - 1}.")
    if counts.min() < 2:
        code = int(counts.argmin())
        raise DataError(f"Class {code} has {counts[code]} of {len(y)} training rows; the models need at least 2.")
