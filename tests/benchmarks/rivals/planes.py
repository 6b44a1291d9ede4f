"""Problems whose answers are known: two blobs on a plane, and lenders whose models are half-planes."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals.rival import Problem
from models.arrays import Records
from models.data.schema import Feature, FeatureKind, Schema
from models.datasets.dataset import Labelled
from models.space.encoding import Encoder

PLANE = Schema(
    (
        Feature("x1", FeatureKind.NUMERIC, lower=-10.0, upper=10.0, step=0.001),
        Feature("x2", FeatureKind.NUMERIC, lower=-10.0, upper=10.0, step=0.001),
    ),
    "label",
    ("no", "yes"),
)


class Thresholds:
    """Models that say yes where x1 is above their threshold; they count the records that reach them."""

    def __init__(self, *thresholds: float, classes: tuple[str, ...] = PLANE.classes) -> None:
        self.thresholds, self.classes = thresholds, classes
        self.count = 0

    @property
    def member_names(self) -> tuple[str, ...]:
        return tuple(f"above {threshold}" for threshold in self.thresholds)

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        self.count += len(records)
        odds = np.stack([1.0 / (1.0 + np.exp(-20.0 * (records[:, 0] - each))) for each in self.thresholds])
        return np.stack([1.0 - odds, odds], axis=2)


def blobs(rows: int = 400, seed: int = 0) -> Labelled:
    """One class around (-2, 0), the other around (2, 0), the boundary between them at x1 = 0"""
    random = np.random.default_rng(seed)
    labels = np.arange(rows) % 2
    points = random.normal(scale=0.5, size=(rows, 2))
    points[:, 0] += np.where(labels == 1, 2.0, -2.0)
    return Labelled(np.round(points, 3), labels.astype(np.int64))


def problem(ensemble: Thresholds, training: Labelled | None = None, seed: int = 0) -> Problem:
    training = training or blobs()
    return Problem(Encoder.fit(PLANE, training.records), training, ensemble, seed)
