"""Feature selection for wide data (paper, "Scalability to High-Dimensional Data"): only the top features may change."""

import numpy as np
from numpy.typing import NDArray

from ..config import Config, SelectionConfig
from ..errors import ConfigError
from ..space.encoding import Encoder
from .surrogate_trainer import TrainingData


def select_features(encoder: Encoder, data: TrainingData, config: Config, seed: int) -> frozenset[str]:
    """The names of the features that may move: all, or the `top_features` most important ones"""
    names = encoder.schema.names
    if config.top_features is None:
        return frozenset(names)
    if config.top_features > len(names):
        raise ConfigError(f"top_features is {config.top_features}, but there are only {len(names)} features.")
    importance = _importance(encoder, data, config.selection, seed)
    order = np.argsort(-importance, kind="stable")[: config.top_features]
    return frozenset(names[j] for j in order)


def _importance(encoder: Encoder, data: TrainingData, config: SelectionConfig, seed: int) -> NDArray[np.float64]:
    """(F,) the penalty at which LassoNet drops each feature; the columns of a feature drop together

    Features that drop at the first penalty rank last.
    """
    from lassonet import LassoNetClassifier  # Here, because it takes most of a second and is seldom needed.

    rows = np.random.default_rng(seed).permutation(len(data.points))[: config.rows]
    groups = [list(range(where.start, where.stop)) for where in encoder.columns]
    net = LassoNetClassifier(
        hidden_dims=(config.width,),
        groups=groups if len(groups) < encoder.width else None,  # groups of one only slow it down, thirty times on Musk
        lambda_start=config.first_penalty,
        path_multiplier=config.penalty_factor,
        n_iters=(config.first_epochs, config.epochs),
        batch_size=config.batch,
        random_state=seed,
        torch_seed=seed,
        verbose=0,
        device=data.points.device,
    )
    x, y = data.points[rows].cpu().numpy(), data.labels[rows].cpu().numpy()
    net.path(x, y, return_state_dicts=False, disable_lambda_warning=True)
    importance = net.feature_importances_.cpu().numpy().astype(np.float64)
    finite = np.where(np.isinf(importance), importance[np.isfinite(importance)].max(initial=0.0) + 1.0, importance)
    return np.array([finite[where].max() for where in encoder.columns])
