"""How unusual a record is, as two detectors see it that know nothing of the method (paper, Table "plausibility")."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor

from ..arrays import Encoded

POINTS = 5000
"""The detectors see a sample of so many training points."""
NEIGHBOURS = 20


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


def fit_detectors(points: Encoded, seed: int) -> OutlierDetectors:
    """points (n, D) of the training split.

    LOF is fitted to distinct points: where a point occurs more often than a neighbourhood is large, its density has no
    bound, and the factor of anything beside it neither.
    """
    random = np.random.default_rng(seed)
    sample = points[np.sort(random.permutation(len(points))[:POINTS])]
    distinct = np.unique(sample, axis=0)
    local = LocalOutlierFactor(n_neighbors=min(NEIGHBOURS, len(distinct) - 1), novelty=True).fit(distinct)
    return OutlierDetectors(local, IsolationForest(random_state=seed).fit(sample))
