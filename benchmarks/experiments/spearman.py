"""Does the density score rank records as other estimators do? `python -m benchmarks.experiments.spearman`"""

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import KernelDensity, NearestNeighbors
from sklearn.svm import OneClassSVM

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import REAL, Experiment, Measure, Measured, Scope
from benchmarks.experiments.pictures import draw_bars
from models.matrix import Encoded
from models.model import RecourseModel

Floats: TypeAlias = NDArray[np.float64]
Estimator: TypeAlias = Callable[[Encoded, Encoded, int], Floats]
"""Training points (t, D), test points (n, D), seed -> scores (n,), higher where it is denser"""

FIT_ROWS, TEST_ROWS = 4000, 1000
NEIGHBOURS = 20
RHO = Measure("rho", "higher")


def _one_class_svm(training: Encoded, test: Encoded, seed: int) -> Floats:
    scores: Floats = OneClassSVM(gamma="scale", nu=0.1).fit(training[: FIT_ROWS // 2]).decision_function(test)
    return scores


def _pca_kde(training: Encoded, test: Encoded, seed: int) -> Floats:
    reduction = PCA(n_components=min(5, training.shape[1]), random_state=seed).fit(training)
    density = KernelDensity(bandwidth=0.5).fit(reduction.transform(training))
    scores: Floats = density.score_samples(reduction.transform(test))
    return scores


def _mahalanobis(training: Encoded, test: Encoded, seed: int) -> Floats:
    inverse = np.linalg.pinv(np.cov(training, rowvar=False))
    away = test - training.mean(axis=0)
    scores: Floats = -np.einsum("nd,de,ne->n", away, inverse, away)
    return scores


def _isolation_forest(training: Encoded, test: Encoded, seed: int) -> Floats:
    scores: Floats = IsolationForest(random_state=seed).fit(training).score_samples(test)
    return scores


def _elliptic_envelope(training: Encoded, test: Encoded, seed: int) -> Floats:
    with warnings.catch_warnings():
        # Columns of a circle are tied to each other, so that the covariance is singular; the ranks are still defined.
        warnings.simplefilter("ignore")
        scores: Floats = EllipticEnvelope(support_fraction=0.9, random_state=seed).fit(training).decision_function(test)
    return scores


def _nearest_neighbours(training: Encoded, test: Encoded, seed: int) -> Floats:
    distances, _ = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(training).kneighbors(test)
    scores: Floats = -np.log(distances[:, -1] + 1e-9)
    return scores


ESTIMATORS: Mapping[str, Estimator] = {
    "oc-svm": _one_class_svm,
    "pca+kde": _pca_kde,
    "mahalanobis": _mahalanobis,
    "isoforest": _isolation_forest,
    "elliptic": _elliptic_envelope,
    "knn": _nearest_neighbours,
}


def marginal_score(model: RecourseModel, points: Encoded) -> Floats:
    """points (n, D) -> log p(x) / noise (n,): all classes together against the noise, the mean of both networks"""
    with torch.inference_mode():
        readings = model.pair(torch.from_numpy(points.astype(np.float32)))
        scores = [torch.logsumexp(each.logits[:, :-1], dim=1) - each.logits[:, -1] for each in readings]
        mean: Floats = torch.stack(scores).mean(dim=0).double().numpy()
    return mean


def run(bench: Bench, estimator: str) -> Measured:
    random = np.random.default_rng(bench.seed)
    training = bench.encoder.encode(bench.study.training.records)
    training = training[random.permutation(len(training))[:FIT_ROWS]]
    test = bench.encoder.encode(bench.study.test.records)
    test = test[random.permutation(len(test))[:TEST_ROWS]]
    ours = marginal_score(bench.model()[0], test)
    rho = spearmanr(ours, ESTIMATORS[estimator](training, test, bench.seed)).statistic
    return Measured({"rho": float(rho)})


EXPERIMENT = Experiment(
    name="spearman",
    title="Agreement of the density score with six estimators",
    place="Table 9",
    about=(
        "Spearman's rho on test records between the score (all classes against the noise) and each estimator, fitted "
        "to at most 4,000 training records (the one-class SVM to 2,000); every score is turned so that dense is high. "
        "The paper trains a discriminator for this table alone; ours is the surrogate of the search itself, as it is "
        "after distillation."
    ),
    full=Scope(REAL, tuple(ESTIMATORS)),
    quick=Scope(("blood",), tuple(ESTIMATORS)),
    measures=(RHO,),
    run=run,
    draw=draw_bars("spearman", (RHO,)),
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
