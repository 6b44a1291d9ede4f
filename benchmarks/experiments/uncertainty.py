"""How much the models of an ensemble disagree, and bootstrap intervals of what is computed from it."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

Floats = NDArray[np.float64]


def variance(probabilities: Floats, target: NDArray[np.int64]) -> Floats:
    """Of the models' probabilities of the target: (m, n, K), (n,) -> (n,)"""
    chosen = np.take_along_axis(probabilities, target[None, :, None], axis=2)[:, :, 0]
    spread: Floats = chosen.var(axis=0)
    return spread


def mutual_information(probabilities: Floats) -> Floats:
    """Entropy of the mean less the mean entropy, in nats: (m, n, K) -> (n,)"""
    information: Floats = _entropy(probabilities.mean(axis=0)) - _entropy(probabilities).mean(axis=0)
    return information


def _entropy(probabilities: Floats) -> Floats:
    """(..., K) -> (...)"""
    safe = np.clip(probabilities, 1e-12, 1.0)
    entropy: Floats = -(safe * np.log(safe)).sum(axis=-1)
    return entropy


def rank_correlation(density: Floats, disagreement: Floats) -> float:
    """Spearman's rho of lower density with higher disagreement; 0 where one of them does not vary"""
    if np.ptp(density) == 0 or np.ptp(disagreement) == 0:
        return 0.0
    return float(spearmanr(-density, disagreement).statistic)


def tail_ratio(density: Floats, disagreement: Floats) -> float:
    """Mean disagreement of the fifth of lowest density over that of the fifth of highest"""
    order = np.argsort(density, kind="stable")
    fifth = max(1, len(order) // 5)
    return float(disagreement[order[:fifth]].mean() / max(disagreement[order[-fifth:]].mean(), 1e-12))


def bootstrap(
    figure: Callable[[Floats, Floats], float], one: Floats, other: Floats, random: np.random.Generator, times: int = 300
) -> tuple[float, float]:
    """The 95% interval of figure(one, other) over records drawn with replacement"""
    draws = (random.integers(len(one), size=len(one)) for _ in range(times))
    values = [figure(one[rows], other[rows]) for rows in draws]
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)
