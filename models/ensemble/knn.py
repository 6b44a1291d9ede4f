"""k nearest neighbours."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from ..arrays import Codes, Encoded, Probabilities
from .member import SkopsMember, require_every_class

LEAF = 120  # the fastest of 15 to 400 on Adult


class Knn(SkopsMember):
    """A fitted k-nearest-neighbour vote."""

    name, kind = "knn", KNeighborsClassifier
    trusted = ("sklearn.metrics._dist_metrics.EuclideanDistance64", "sklearn.neighbors._kd_tree.KDTree")

    def predict_proba(self, x: Encoded) -> Probabilities:
        """x (n, D) -> (n, K)"""
        return np.asarray(self.model.predict_proba(x), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class KnnRecipe:
    """How many neighbours vote, and whether the near ones weigh more."""

    neighbors: int = 9
    weights: Literal["uniform", "distance"] = "uniform"

    def fit(self, x: Encoded, y: Codes, classes: int, seed: int) -> Knn:
        """x (n, D), y (n,) -> Knn; nothing is random, so the seed has no effect."""
        require_every_class(y, classes)
        # A tree measures each pair by itself. The brute-force search multiplies whole batches, so that among equally
        # far neighbours (categories make many) a record's choice would depend on the records beside it.
        neighbors = min(self.neighbors, len(x))
        model = KNeighborsClassifier(neighbors, weights=self.weights, algorithm="kd_tree", leaf_size=LEAF, n_jobs=1)
        return Knn(model.fit(x, y))
