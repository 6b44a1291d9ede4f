"""How unusual a record is, as two detectors see it that know nothing of the method (paper, Table "plausibility")."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor

from ..arrays import Encoded
from ..config import EvaluationConfig


@dataclass(frozen=True, eq=False)
class OutlierDetectors:
    """LOF and an isolation forest, fitted to training points; the lower a score, the more usual the point."""

    local: LocalOutlierFactor
    forest: IsolationForest

    def lof(self, points: Encoded) -> NDArray[np.float64]:
        """points (n, D) -> local outlier factors (n,); about 1 is usual"""
        factors: NDArray[np.float64] = -self.local.score_samples(points)
        return factors

    def isolation(self, points: Encoded) -> NDArray[np.float64]:
        """points (n, D) -> anomaly scores (n,) from 0 to 1"""
        scores: NDArray[np.float64] = -self.forest.score_samples(points)
        return scores


def fit_detectors(points: Encoded, config: EvaluationConfig) -> OutlierDetectors:
    """points (n, D) of the training split.

    LOF is fitted to distinct points: where a point occurs more often than a neighbourhood is large, its density has no
    bound, and the factor of anything beside it neither.
    """
    random = np.random.default_rng(config.seed)
    sample = points[np.sort(random.permutation(len(points))[: config.outlier_points])]
    distinct = np.unique(sample, axis=0)
    neighbours = min(config.outlier_neighbours, len(distinct) - 1)
    local = LocalOutlierFactor(n_neighbors=neighbours, novelty=True)
    return OutlierDetectors(local.fit(distinct), IsolationForest(random_state=config.seed).fit(sample))
