"""The jury: plain models trained on resamples of the same data, which cost no query.

Model multiplicity is what makes recourse fragile (paper, "Introduction"): the next, equally good model draws its
boundary elsewhere. The jury is a sample of such models. A few families with plain settings are each trained on several
draws of the training rows; the share of them that accepts a point says how far plausible models agree there, and that
is what the surrogate learns. No juror is of a family by which survival is measured (benchmarks/survival, group d).
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier

from ..arrays import Codes, Encoded, Floats
from ..config import JuryConfig
from .residual_ridge import kernel_sums

LEAST_VOTE = 1e-30
"""No vote is less: its logarithm is asked for."""


@dataclass(frozen=True, eq=False)
class Jury:
    """Fitted classifiers over K classes."""

    jurors: tuple[ClassifierMixin, ...]
    config: JuryConfig

    def votes(self, points: Encoded) -> NDArray[np.float32]:
        """points (n, D) -> how far each juror is for each class (s, n, K), rows sum to 1

        A juror's probabilities are sharpened, not rounded: near one half its vote is a toss-up for models like it.
        """
        with threadpool_limits(limits=1):
            return np.stack([_sharpened(juror, points, self.config) for juror in self.jurors])

    def logits(self, votes: NDArray[np.float32]) -> Floats:
        """votes (s, n, K) -> each juror's logits at each point (n, s * K), centred, before they were sharpened"""
        chances = np.log(np.maximum(votes, LEAST_VOTE), dtype=np.float64) / self.config.sharpness
        chances -= chances.mean(axis=2, keepdims=True)
        return np.asarray(chances.transpose(1, 0, 2).reshape(votes.shape[1], -1))


def fit_jury(x: Encoded, y: Codes, classes: int, seed: int, config: JuryConfig) -> Jury:
    """x (n, D), y (n,) -> a juror of each family for each draw of the rows"""
    jurors: list[ClassifierMixin] = []
    for draw in range(config.draws):
        random = np.random.default_rng([seed, draw])
        rows = draw_rows(y, config.share, random)
        few = _with_every_class(y, random.permutation(rows), config.slow_rows, classes)
        for family in FAMILIES.values():
            model, slow = family(config, x.shape[1], int(random.integers(2**31)))
            chosen = few if slow else rows
            jurors.append(_fit(model, x[chosen], y[chosen]))
    return Jury(tuple(jurors), config)


def draw_rows(y: Codes, share: float, random: np.random.Generator) -> NDArray[np.intp]:
    """A share of the rows of each class, drawn without repeats, in their order; of few rows, three at least"""
    drawn = [random.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    return np.sort(np.concatenate([each[: max(3, round(share * len(each)))] for each in drawn]))


Family = Callable[[JuryConfig, int, int], tuple[ClassifierMixin, bool]]
"""(settings, encoded width, seed) -> a classifier that is not fitted yet, and whether many rows make it slow"""


def _forest(config: JuryConfig, width: int, seed: int) -> tuple[ClassifierMixin, bool]:
    trees, depth = config.forest_trees, config.forest_depth
    return RandomForestClassifier(trees, max_depth=depth, random_state=seed, n_jobs=1), False


def _boosted(config: JuryConfig, width: int, seed: int) -> tuple[ClassifierMixin, bool]:
    model = XGBClassifier(
        n_estimators=config.boosted_trees,
        max_depth=config.boosted_depth,
        learning_rate=config.boosted_rate,
        subsample=0.8,
        random_state=seed,
        n_jobs=1,
    )
    return model, False


def _neighbours(config: JuryConfig, width: int, seed: int) -> tuple[ClassifierMixin, bool]:
    return KNeighborsClassifier(config.nearest, algorithm="brute", n_jobs=1), True


def _support_vectors(config: JuryConfig, width: int, seed: int) -> tuple[ClassifierMixin, bool]:
    gamma = 1.0 / width if width > 4 else config.plane_gamma
    return SVC(C=config.svm_c, gamma=gamma, random_state=seed), True


def _perceptron(config: JuryConfig, width: int, seed: int) -> tuple[ClassifierMixin, bool]:
    layers, penalty = (config.perceptron_width, config.perceptron_width), config.perceptron_penalty
    batch, epochs = config.perceptron_batch, config.perceptron_epochs
    model = MLPClassifier(layers, alpha=penalty, batch_size=batch, max_iter=epochs, tol=0.0, random_state=seed)
    return model, True


FAMILIES: Mapping[str, Family] = {
    "forest": _forest,
    "boosted": _boosted,
    "neighbours": _neighbours,
    "support vectors": _support_vectors,
    "perceptron": _perceptron,
}


def _fit(model: ClassifierMixin, x: Encoded, y: Codes) -> ClassifierMixin:
    """A perceptron that ends at its last epoch is as good a juror as any: no warning. Few rows make few neighbours."""
    if isinstance(model, MLPClassifier):
        model.set_params(batch_size=min(model.batch_size, len(x)))
    if isinstance(model, KNeighborsClassifier):
        model.set_params(n_neighbors=min(model.n_neighbors, len(x)))
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x, y)


def _with_every_class(y: Codes, order: NDArray[np.intp], most: int, classes: int) -> NDArray[np.intp]:
    """The first rows of the order, `most` at the most; all of them where a class would be lacking."""
    rows = order[:most]
    return rows if len(np.unique(y[rows])) == classes else order


def _sharpened(juror: ClassifierMixin, points: Encoded, config: JuryConfig) -> NDArray[np.float32]:
    """points (n, D) -> p^sharpness of each class, normalised (n, K)"""
    if isinstance(juror, SVC):
        margin = _margin(juror, points)
        logits = np.stack([-margin, margin], axis=1) if margin.ndim == 1 else margin * 2.0
    else:
        logits = np.log(np.clip(juror.predict_proba(points), config.least_chance, 1.0))
    return np.asarray(softmax(config.sharpness * logits, axis=1), dtype=np.float32)


def _margin(juror: SVC, points: Encoded) -> NDArray[np.float64]:
    """points (n, D) -> (n,), or (n, K) of three classes and more; of two, without the library's loop over the points"""
    if len(juror.classes_) > 2:
        return np.asarray(juror.decision_function(points))
    sums = kernel_sums(points, juror.support_vectors_, juror.dual_coef_.T, juror._gamma)
    return np.asarray(sums[:, 0] + juror.intercept_[0])
