"""Plausible models: a handful of ordinary classifiers trained on the same data, which cost no query.

Model multiplicity is what makes advice fragile, so the surrogate is first taught where plausible models agree. The
answers that are bought from the lender's models then weigh them: a voter that sides with the black boxes counts more.
A constant voter for each class takes up black boxes that always say the same.
"""

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import softmax
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from models.ensemble.member import Codes
from models.gaussian import kernel_sums
from models.matrix import Encoded

SLOW_ROWS = 4000
"""SVM and perceptron see at most this many rows: they are asked about tens of thousands of points."""
NEIGHBOUR_ROWS = 40_000
"""And so many the nearest neighbours, whose votes depend on every row."""
PRIOR = 3.0
"""How strongly the weights are held at equal shares, in units of one bought answer's row."""


SHARPNESS = 6.0
"""The power to which a voter's probabilities are raised; measured against bought votes on Compas and Adult."""


class _Classifier(Protocol):
    def predict_proba(self, x: Encoded) -> NDArray[np.float64]: ...


@dataclass(frozen=True, eq=False)
class PlausibleModels:
    """s voters over K classes; weights (s + K,), the last K of them for the constant voters."""

    voters: tuple[_Classifier, ...]
    classes: int

    @property
    def equal_weights(self) -> NDArray[np.float64]:
        voters = len(self.voters)
        return np.concatenate([np.full(voters, 1.0 / voters), np.zeros(self.classes)])

    def votes(self, points: Encoded) -> NDArray[np.float32]:
        """points (n, D) -> how far each voter is for each class (s, n, K), rows sum to 1

        A voter's probabilities are sharpened, not rounded: near one half its vote is a toss-up for models like it.
        """
        with threadpool_limits(limits=1):
            return np.stack([_sharpened(voter, points, self.classes) for voter in self.voters])

    def shares(self, votes: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """votes (s, n, K), weights (s + K,) -> the weighted share of each class (n, K)"""
        voters = len(self.voters)
        share = np.asarray(np.tensordot(weights[:voters], votes, axes=1) + weights[voters:], dtype=np.float64)
        return np.asarray(share / share.sum(axis=1, keepdims=True))

    def weigh(self, votes: NDArray[np.float32], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights that best reproduce bought shares (q, K) from votes (s, q, K): least squares, none negative."""
        voters, size = len(self.voters), len(self.voters) + self.classes
        said = votes.transpose(1, 2, 0).reshape(-1, voters)
        constant = np.tile(np.eye(self.classes), (len(shares), 1))
        prior = PRIOR * self.equal_weights
        design = np.vstack([np.hstack([said, constant]), PRIOR * np.eye(size)])
        weights, _ = nnls(design, np.concatenate([shares.reshape(-1), prior]))
        return np.asarray(weights / weights.sum())


def _sharpened(voter: _Classifier, points: Encoded, classes: int) -> NDArray[np.float32]:
    """points (n, D) -> p^SHARPNESS of each class, normalised (n, K)"""
    if isinstance(voter, SVC):
        margin = _margin(voter, points)
        logits = np.stack([-margin, margin], axis=1) if margin.ndim == 1 else margin * 2.0
    else:
        logits = np.log(np.clip(voter.predict_proba(points), 1e-3, 1.0))
    return np.asarray(softmax(SHARPNESS * logits, axis=1), dtype=np.float32)


def _margin(voter: SVC, points: Encoded) -> NDArray[np.float64]:
    """points (n, D) -> (n,), or (n, K) of three classes and more; of two, without the library's loop over the points"""
    if len(voter.classes_) > 2:
        return np.asarray(voter.decision_function(points))
    sums = kernel_sums(points, voter.support_vectors_, voter.dual_coef_.T, voter._gamma)
    return np.asarray(sums[:, 0] + voter.intercept_[0])


def _fit_quietly(model: KNeighborsClassifier | SVC | MLPClassifier, x: Encoded, y: Codes) -> _Classifier:
    """A perceptron that ends at its last epoch is as plausible as any: no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted: _Classifier = model.fit(x, y)
    return fitted


def fit_plausible(x: Encoded, y: Codes, classes: int, seed: int) -> PlausibleModels:
    """x (n, D), y (n,) -> the voters, by settings that suit most tabular data"""
    order = np.random.default_rng(seed).permutation(len(x))
    few, some = _with_every_class(y, order, SLOW_ROWS, classes), _with_every_class(y, order, NEIGHBOUR_ROWS, classes)
    trees = [
        RandomForestClassifier(60, max_depth=10, random_state=seed, n_jobs=1),
        ExtraTreesClassifier(60, max_depth=12, random_state=seed, n_jobs=1),
        HistGradientBoostingClassifier(max_iter=100, random_state=seed),
        HistGradientBoostingClassifier(max_iter=150, max_depth=3, random_state=seed + 1),
    ]
    smooth = [
        SVC(C=3.0, gamma=1.0 / x.shape[1] if x.shape[1] > 4 else 2.0, random_state=seed),
        MLPClassifier((64, 64), alpha=1e-2, batch_size=min(128, len(few)), max_iter=40, tol=0.0, random_state=seed),
    ]
    neighbours = KNeighborsClassifier(min(9, len(some)), algorithm="brute", n_jobs=1)
    with threadpool_limits(limits=1):
        fitted: list[_Classifier] = [model.fit(x, y) for model in trees]
        fitted.append(_fit_quietly(neighbours, x[some], y[some]))
        fitted += [_fit_quietly(model, x[few], y[few]) for model in smooth]
    return PlausibleModels(tuple(fitted), classes)


def _with_every_class(y: Codes, order: NDArray[np.intp], most: int, classes: int) -> NDArray[np.intp]:
    """The first rows of the order, `most` at the most; all of them where a class would be lacking."""
    rows = order[:most]
    return rows if len(np.unique(y[rows])) == classes else order
