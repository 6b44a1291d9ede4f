"""What a member of a local ensemble is: a recipe (hyperparameters) is fitted into a member (a trained model).

Members see encoded points (n, D), as in the paper; class codes are 0..K-1 and every class occurs in training. Rows are
drawn by class, so that a rare class is never lost. scikit-learn models are kept as skops files: no pickle, and no type
but the ones that the caller names. skops is imported where it is needed, because it takes more than a second.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ..arrays import Codes, Encoded, Probabilities
from ..errors import ArtifactError, DataError


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


@dataclass(frozen=True)
class SkopsMember:
    """Base class of members that are one scikit-learn model, kept in a skops file under the member's name.

    kind     its class; the file must hold one
    trusted  the types in it that skops does not know
    """

    name: ClassVar[str]
    kind: ClassVar[type]
    trusted: ClassVar[tuple[str, ...]] = ()
    model: Any

    @property
    def width(self) -> int:
        """D"""
        return int(self.model.n_features_in_)

    def save(self, folder: Path) -> None:
        import skops.io

        skops.io.dump(self.model, folder / f"{self.name}.skops")

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(cls.read(folder))

    @classmethod
    def read(cls, folder: Path) -> object:
        """The model in the folder; ArtifactError where its file is missing or damaged, or holds something else."""
        import skops.io
        from skops.io.exceptions import UntrustedTypesFoundException

        path = folder / f"{cls.name}.skops"
        if not path.is_file():
            raise ArtifactError(f"The model file '{path}' is missing; train the ensemble again.")
        try:
            model = skops.io.load(path, trusted=list(cls.trusted))
        except UntrustedTypesFoundException as error:
            raise ArtifactError(f"The model file '{path}' holds types that are not allowed: {error}") from error
        except (BadZipFile, KeyError, ValueError, TypeError, AttributeError, OSError, EOFError) as error:
            raise ArtifactError(f"The model file '{path}' is damaged ({error}); train the ensemble again.") from error
        if not isinstance(model, cls.kind):
            raise ArtifactError(f"The model file '{path}' holds a {type(model).__name__}, not a {cls.kind.__name__}.")
        return model
