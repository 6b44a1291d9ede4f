"""Support vector machine with the RBF kernel."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from ..arrays import Codes, Encoded, Probabilities
from ..errors import ArtifactError
from .member import SkopsMember, require_every_class, stratified_rows

SLOPE_FILE = "svm.json"
CALIBRATION_ROWS = 3000
BLOCK = 500  # rows of one kernel matrix, to bound its memory


@dataclass(frozen=True)
class Svm(SkopsMember):
    """A fitted SVC and the slope that turns its decision into a probability.

    softmax(slope * decision) with one positive slope and no intercept, so that the most probable class is the one that
    SVC.predict names. scikit-learn's own `probability=True` does not promise that, costs five more fits, and is
    deprecated.
    """

    name, kind = "svm", SVC
    slope: float

    def predict_proba(self, x: Encoded) -> Probabilities:
        """x (n, D) -> (n, K)"""
        return np.asarray(softmax(self.slope * _decision(self.model, x), axis=1))

    def save(self, folder: Path) -> None:
        SkopsMember.save(self, folder)
        (folder / SLOPE_FILE).write_text(json.dumps({"slope": self.slope}))

    @classmethod
    def load(cls, folder: Path) -> "Svm":
        return cls(cls.read(folder), _read_slope(folder / SLOPE_FILE))


@dataclass(frozen=True, slots=True)
class SvmRecipe:
    """C and gamma of the RBF kernel ("scale" is 1 / (D * variance)); more rows than `rows` are subsampled by class."""

    c: float = 1.0
    gamma: float | Literal["scale"] = "scale"
    rows: int | None = 15_000

    def fit(self, x: Encoded, y: Codes, classes: int, seed: int) -> Svm:
        """x (n, D), y (n,) -> Svm"""
        require_every_class(y, classes)
        kept = stratified_rows(y, self.rows or len(y), seed)
        return Svm(self._machine().fit(x[kept], y[kept]), self._fit_slope(x, y, seed))

    def _machine(self) -> SVC:
        # break_ties: for K > 2 the class is the argmax of the decision, not the first of the classes with equal votes.
        return SVC(C=self.c, gamma=self.gamma, break_ties=True, cache_size=500)

    def _fit_slope(self, x: Encoded, y: Codes, seed: int) -> float:
        """The slope of least log loss on the out-of-fold decisions of at most CALIBRATION_ROWS rows."""
        rows = stratified_rows(y, CALIBRATION_ROWS, seed)
        folds = StratifiedKFold(min(3, int(np.bincount(y[rows]).min())), shuffle=True, random_state=seed)
        decisions, codes = [], []
        for learn, score in folds.split(rows, y[rows]):
            machine = self._machine().fit(x[rows[learn]], y[rows[learn]])
            decisions.append(_decision(machine, x[rows[score]]))
            codes.append(y[rows[score]])
        decision, code = np.concatenate(decisions), np.concatenate(codes)

        def log_loss(log_slope: float) -> float:
            scores = log_softmax(np.exp(log_slope) * decision, axis=1)
            return -float(scores[np.arange(len(code)), code].mean())

        return float(np.exp(minimize_scalar(log_loss, bounds=(-3.0, 3.0), method="bounded").x))


def _decision(machine: SVC, x: Encoded) -> NDArray[np.float64]:
    """x (n, D) -> one score a class (n, K); for two classes 0 and the signed margin."""
    if len(machine.classes_) > 2:
        return np.asarray(machine.decision_function(x))
    margin = np.concatenate([_margin(machine, part) for part in np.array_split(x, len(x) // BLOCK + 1)])
    return np.stack([np.zeros_like(margin), margin], axis=1)


def _margin(machine: SVC, x: Encoded) -> NDArray[np.float64]:
    """The decision function of two classes, x (n, D) -> (n,): with the kernel as one matrix product."""
    support = machine.support_vectors_
    squares = (x * x).sum(axis=1)[:, None] + (support * support).sum(axis=1) - 2.0 * (x @ support.T)
    kernel = np.exp(-machine._gamma * np.maximum(squares, 0.0))
    margin: NDArray[np.float64] = kernel @ machine.dual_coef_[0] + machine.intercept_[0]
    return margin


def _read_slope(path: Path) -> float:
    try:
        slope = json.loads(path.read_text())["slope"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"The model file '{path}' is missing or damaged; train the ensemble again.") from error
    if not isinstance(slope, float) or not 0.0 < slope < float("inf"):
        raise ArtifactError(f"The model file '{path}' gives the slope {slope!r}, which is not a positive number.")
    return slope
