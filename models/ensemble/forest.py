"""Random forest."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree._tree import Tree

from ..arrays import Codes, Encoded, Probabilities
from .member import SkopsMember, require_every_class


class Forest(SkopsMember):
    """A fitted random forest."""

    name, kind = "forest", RandomForestClassifier
    trusted = ("sklearn.tree._tree.Tree",)

    @cached_property
    def _trees(self) -> list[Tree]:
        return [estimator.tree_ for estimator in self.model.estimators_]

    def predict_proba(self, x: Encoded) -> Probabilities:
        """x (n, D) -> (n, K); the same sum as the library's, without a thread pool for every call."""
        points = np.ascontiguousarray(x, dtype=np.float32)
        total = np.zeros((len(x), self.model.n_classes_))
        for tree in self._trees:
            total += tree.predict(points)
        return total / len(self._trees)


@dataclass(frozen=True, slots=True)
class ForestRecipe:
    """The number and the size of the trees."""

    trees: int = 100
    max_depth: int | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 1

    def fit(self, x: Encoded, y: Codes, classes: int, seed: int) -> Forest:
        """x (n, D), y (n,) -> Forest"""
        require_every_class(y, classes)
        model = RandomForestClassifier(
            self.trees,
            max_depth=self.max_depth,
            min_samples_split=self.min_samples_split,
            min_samples_leaf=self.min_samples_leaf,
            random_state=seed,
            n_jobs=1,
        )
        return Forest(model.fit(x, y))
