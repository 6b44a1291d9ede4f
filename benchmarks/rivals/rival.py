"""What every rival does: learn from the training split, explain records, and count what it asked the black boxes."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.arrays import Encoded, Records, Targets
from models.datasets.dataset import Labelled
from models.ensemble.meter import QueryMeter
from models.ensemble.protocol import Ensemble
from models.space.encoding import Encoder

UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class Queries:
    """Records put to the ensemble: each one as often as it was put, and each distinct one once."""

    asked: int
    distinct: int


@dataclass(frozen=True, eq=False)
class Problem:
    """What a rival may learn from; a white-box rival leaves the ensemble alone."""

    encoder: Encoder
    training: Labelled
    ensemble: Ensemble
    seed: int


class Rival(Protocol):
    """`fit` once, then `explain`; `queries` counts both. `note` is what a reader of the figures has to know."""

    @property
    def name(self) -> str: ...

    @property
    def queries(self) -> Queries: ...

    @property
    def note(self) -> str: ...

    def fit(self, problem: Problem) -> None: ...

    def explain(self, records: Records, target: Targets) -> Records:
        """records (n, F), target (n,) -> counterfactuals (n, F), decoded; a record as it was where none was found"""
        ...


class CountedEnsemble:
    """An ensemble that counts without a limit; implements Ensemble. A record that is put again is not bought again."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.member_names, self.classes = ensemble.member_names, ensemble.classes
        self._meter = QueryMeter(ensemble, UNLIMITED)
        self._asked = 0

    @property
    def queries(self) -> Queries:
        return Queries(self._asked, self._meter.spent)

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> (m, n, K)"""
        self._asked += len(records)
        return self._meter.predict_proba(records)


NO_QUERIES = Queries(0, 0)


def squared_distances(points: Encoded, others: Encoded) -> NDArray[np.float64]:
    """points (n, D), others (t, D) -> (n, t)"""
    squares: NDArray[np.float64] = (points**2).sum(axis=1)[:, None] - 2 * points @ others.T
    squares += (others**2).sum(axis=1)
    return np.maximum(squares, 0.0)
