"""The teacher ensemble: ordinary classifiers trained on the same data, which cost no query.

Model multiplicity is what makes recourse fragile (paper, "Introduction"), so the surrogate learns first where equally
good models agree. The labels that are queried from the lender's models then weigh the teachers by non-negative
stacking: a teacher that sides with the black boxes counts more. A constant teacher for each class takes up black boxes
that always say the same.
"""

import warnings
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from ..arrays import Codes, Encoded
from ..config import TeacherConfig
from .residual_ridge import kernel_sums

LEAST_VOTE = 1e-30
"""No vote is less: its logarithm is asked for."""


@dataclass(frozen=True, eq=False)
class TeacherEnsemble:
    """s teachers over K classes; weights (H, s + K) for each of H black boxes, the last K for the constant teachers."""

    teachers: tuple[ClassifierMixin, ...]
    classes: int
    config: TeacherConfig = field(default_factory=TeacherConfig)

    def equal_weights(self, heads: int) -> NDArray[np.float64]:
        """(H, s + K): all teachers count alike and the constant ones nothing, for each of H black boxes"""
        count = len(self.teachers)
        return np.tile(np.concatenate([np.full(count, 1.0 / count), np.zeros(self.classes)]), (heads, 1))

    def votes(self, points: Encoded) -> NDArray[np.float32]:
        """points (n, D) -> how far each teacher is for each class (s, n, K), rows sum to 1

        A teacher's probabilities are sharpened, not rounded: near one half its vote is a toss-up for models like it.
        """
        with threadpool_limits(limits=1):
            return np.stack([_sharpened(teacher, points, self.config) for teacher in self.teachers])

    def teacher_logits(self, votes: NDArray[np.float32]) -> NDArray[np.float64]:
        """votes (s, n, K) -> each teacher's logits at each point (n, s * K), centred, before they were sharpened"""
        chances = np.log(np.maximum(votes, LEAST_VOTE), dtype=np.float64) / self.config.sharpness
        chances -= chances.mean(axis=2, keepdims=True)
        return np.asarray(chances.transpose(1, 0, 2).reshape(votes.shape[1], -1))

    def expected(self, votes: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """votes (s, n, K), weights (H, s + K) -> how far each black box is for each class (n, H, K), rows sum to 1"""
        count = len(self.teachers)
        said = np.tensordot(votes, weights[:, :count], axes=(0, 1)).transpose(0, 2, 1) + weights[:, count:]
        return np.asarray(said / said.sum(axis=2, keepdims=True), dtype=np.float64)

    def fit_stacking_weights(self, votes: NDArray[np.float32], queried: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights (H, s + K) with which the teachers' votes (s, q, K) best reproduce queried votes (q, H, K)

        Non-negative least squares for each black box by itself, with a ridge towards equal weights; where a black box
        did not answer, its queried votes are zeros and the row is left out.
        """
        count = len(self.teachers)
        said = votes.transpose(1, 2, 0)
        constant = np.tile(np.eye(self.classes), (len(queried), 1, 1))
        design = np.concatenate([said, constant], axis=2)
        prior, weights = self.equal_weights(queried.shape[1]), np.empty((queried.shape[1], count + self.classes))
        ridge = self.config.prior
        for head, answers in enumerate(queried.transpose(1, 0, 2)):
            heard = answers.any(axis=1)
            rows = np.vstack([design[heard].reshape(-1, design.shape[2]), ridge * np.eye(design.shape[2])])
            weights[head], _ = nnls(rows, np.concatenate([answers[heard].reshape(-1), ridge * prior[head]]))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _sharpened(teacher: ClassifierMixin, points: Encoded, config: TeacherConfig) -> NDArray[np.float32]:
    """points (n, D) -> p^sharpness of each class, normalised (n, K)"""
    if isinstance(teacher, SVC):
        margin = _margin(teacher, points)
        logits = np.stack([-margin, margin], axis=1) if margin.ndim == 1 else margin * 2.0
    else:
        logits = np.log(np.clip(teacher.predict_proba(points), config.least_chance, 1.0))
    return np.asarray(softmax(config.sharpness * logits, axis=1), dtype=np.float32)


def _margin(teacher: SVC, points: Encoded) -> NDArray[np.float64]:
    """points (n, D) -> (n,), or (n, K) of three classes and more; of two, without the library's loop over the points"""
    if len(teacher.classes_) > 2:
        return np.asarray(teacher.decision_function(points))
    sums = kernel_sums(points, teacher.support_vectors_, teacher.dual_coef_.T, teacher._gamma)
    return np.asarray(sums[:, 0] + teacher.intercept_[0])


def fit_teachers(x: Encoded, y: Codes, classes: int, seed: int, config: TeacherConfig | None = None) -> TeacherEnsemble:
    """x (n, D), y (n,) -> the teachers, by settings that suit most tabular data"""
    config = config or TeacherConfig()
    order = np.random.default_rng(seed).permutation(len(x))
    few = _with_every_class(y, order, config.slow_rows, classes)
    some = _with_every_class(y, order, config.neighbour_rows, classes)
    with threadpool_limits(limits=1):
        fitted = [model.fit(x, y) for model in _trees(config, seed)]
        if config.neighbours:
            neighbours = KNeighborsClassifier(min(config.nearest, len(some)), algorithm="brute", n_jobs=1)
            fitted.append(neighbours.fit(x[some], y[some]))
        if config.svm:
            gamma = 1.0 / x.shape[1] if x.shape[1] > 4 else config.plane_gamma
            fitted.append(SVC(C=config.svm_c, gamma=gamma, random_state=seed).fit(x[few], y[few]))
        fitted.append(_fit_perceptron(config, x[few], y[few], seed))
    return TeacherEnsemble(tuple(fitted), classes, config)


def _trees(config: TeacherConfig, seed: int) -> list[ClassifierMixin]:
    """The teachers made of trees, not fitted yet"""
    forests: list[ClassifierMixin] = [
        RandomForestClassifier(config.forest_trees, max_depth=config.forest_depth, random_state=seed, n_jobs=1),
        ExtraTreesClassifier(config.forest_trees, max_depth=config.extra_depth, random_state=seed, n_jobs=1),
    ]
    if not config.boosted:
        return forests
    shallow = {"max_iter": config.shallow_trees, "max_depth": config.shallow_depth}
    return [
        *forests,
        HistGradientBoostingClassifier(max_iter=config.boosted_trees, random_state=seed),
        HistGradientBoostingClassifier(**shallow, random_state=seed + 1),
    ]


def _fit_perceptron(config: TeacherConfig, x: Encoded, y: Codes, seed: int) -> ClassifierMixin:
    """One that ends at its last epoch is as good a teacher as any: no warning."""
    layers, batch = (config.perceptron_width, config.perceptron_width), min(config.perceptron_batch, len(x))
    penalty, epochs = config.perceptron_penalty, config.perceptron_epochs
    model = MLPClassifier(layers, alpha=penalty, batch_size=batch, max_iter=epochs, tol=0.0, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x, y)


def _with_every_class(y: Codes, order: NDArray[np.intp], most: int, classes: int) -> NDArray[np.intp]:
    """The first rows of the order, `most` at the most; all of them where a class would be lacking."""
    rows = order[:most]
    return rows if len(np.unique(y[rows])) == classes else order
