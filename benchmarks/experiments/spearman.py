"""Does the density score rank records as other estimators do?"""

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
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.experiment import REAL, Experiment, Measure, Measured, Scope
from benchmarks.experiments.pictures import draw_bars
from models.arrays import Encoded
from models.model import RecourseModel
from models.networks.density import draw_noise

Floats: TypeAlias = NDArray[np.float64]
Estimator: TypeAlias = Callable[[Encoded, Encoded, int], Floats]
"""Training points (t, D), test points (n, D), seed -> scores (n,), higher where it is denser"""

FIT_ROWS, TEST_ROWS = 4000, 1000
NEIGHBOURS = 20
RHO, OWN_RHO = Measure("rho", "higher"), Measure("surrogate's rho", "higher")
STEPS, BATCH, WIDTH, BOUND = 600, 256, 64, 3.0
"""Of the light discriminator; its noise reaches three deviations to each side."""


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


def light_discriminator(training: Encoded, seed: int) -> Callable[[Encoded], Floats]:
    """Trained to tell training points (t, D) from as many of noise; points (n, D) -> its logit (n,)"""
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    known, inputs = torch.from_numpy(training.astype(np.float32)), training.shape[1]
    first, second = (spectral_norm(nn.Linear(size, WIDTH)) for size in (inputs, WIDTH))
    net = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4)
    for _ in range(STEPS):
        data = known[torch.randint(len(known), (BATCH,), generator=random)]
        noise = draw_noise(BATCH, inputs, BOUND, random)
        loss = functional.softplus(-net(data)).mean() + functional.softplus(net(noise)).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()

    def logit(points: Encoded) -> Floats:
        with torch.inference_mode():
            scores: Floats = net(torch.from_numpy(points.astype(np.float32))).squeeze(1).double().numpy()
        return scores

    return logit


def marginal_score(model: RecourseModel, points: Encoded) -> Floats:
    """points (n, D) -> log p(x) / noise (n,): all classes together against the noise, the mean of both networks"""
    with torch.inference_mode():
        outputs = model.pair(torch.from_numpy(points.astype(np.float32)))
        scores = [torch.logsumexp(each.logits[:, :-1], dim=1) - each.logits[:, -1] for each in outputs]
        mean: Floats = torch.stack(scores).mean(dim=0).double().numpy()
    return mean


def run(bench: Bench, estimator: str) -> Measured:
    random = np.random.default_rng(bench.seed)
    training = bench.encoder.encode(bench.study.training.records)
    known = training[random.permutation(len(training))[:FIT_ROWS]]
    test = bench.encoder.encode(bench.study.test.records)
    test = test[random.permutation(len(test))[:TEST_ROWS]]
    theirs = ESTIMATORS[estimator](known, test, bench.seed)
    scores = {RHO: light_discriminator(training, bench.seed)(test), OWN_RHO: marginal_score(bench.model()[0], test)}
    return Measured({rho.name: float(spearmanr(ours, theirs).statistic) for rho, ours in scores.items()})


EXPERIMENT = Experiment(
    name="spearman",
    title="Agreement of the density score with six estimators",
    place="Table 9",
    about=(
        "Spearman's rho on test records between an NCE score and each estimator, fitted to at most 4,000 training "
        "records (the one-class SVM to 2,000); every score is turned so that dense is high. As in the paper, the score "
        "is that of a light discriminator that is trained for this table: 64-64 units with spectral norm, as much "
        "noise as data, uniform to three deviations (chosen on seed 0). Beside it the surrogate of the search itself "
        "(all classes against the noise), as it is after distillation: it tells data from noise, within the data it "
        "ranks poorly."
    ),
    full=Scope(REAL, tuple(ESTIMATORS)),
    quick=Scope(("blood",), tuple(ESTIMATORS)),
    measures=(RHO, OWN_RHO),
    run=run,
    draw=draw_bars("spearman", (RHO,)),
)
