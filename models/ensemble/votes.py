"""Votes of an ensemble for a target class, their agreement, and a lower bound for it."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from ..errors import ConfigError, EnsembleError


def answered(probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
    """probabilities (m, n, K) -> (m, n), true where the member gave an answer (no NaN)"""
    return np.logical_not(np.isnan(probabilities).any(axis=2))


def votes(probabilities: NDArray[np.float64], target: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which members name the target as the most probable class: probabilities (m, n, K), target (n,) -> (m, n).

    A member that did not answer has no vote: false here.
    """
    if probabilities.ndim != 3 or target.shape != probabilities.shape[1:2]:
        shapes = f"{probabilities.shape} and {target.shape}"
        raise EnsembleError(f"Votes need probabilities (m, n, K) and targets (n,), not the shapes {shapes}.")
    heard = answered(probabilities)
    named = np.where(heard[:, :, None], probabilities, 0.0).argmax(axis=2)
    agreed: NDArray[np.bool_] = heard & (named == target)
    return agreed


def agreement(probabilities: NDArray[np.float64], target: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of all members who name the target: (m, n, K), (n,) -> (n,). One that is silent has not agreed.

    >>> probabilities = np.array([[[0.2, 0.8]], [[0.6, 0.4]], [[np.nan, np.nan]]])
    >>> agreement(probabilities, np.array([1])).round(2)
    array([0.33])
    """
    share: NDArray[np.float64] = votes(probabilities, target).mean(axis=0)
    return share


def beta_lower_bound(yes: int, no: int, level: float = 0.9) -> float:
    """A summary of the votes: the (1 - level) quantile of their Beta(1/2 + yes, 1/2 + no) posterior.

    7 of 7 gives 0.83, 6 of 7 gives 0.63. It bounds the agreement of further models like these for a record that was
    drawn by chance; for one that was searched for with these very votes it is no such promise.
    """
    if yes < 0 or no < 0:
        raise ConfigError(f"Votes cannot be negative: {yes} for and {no} against.")
    if not 0.0 < level < 1.0:
        raise ConfigError(f"The level {level} is not between 0 and 1.")
    return float(beta.ppf(1.0 - level, 0.5 + yes, 0.5 + no))
