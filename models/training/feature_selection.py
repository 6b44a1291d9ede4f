"""Feature selection for wide data (the paper's DensityFlow-FS): the top features flow, the rest stay frozen."""

import numpy as np
from numpy.typing import NDArray

from ..config import Config
from ..errors import ConfigError
from ..space.encoding import Encoder
from .surrogate_trainer import TrainingData

ROWS = 3000
"""LassoNet walks a whole path of penalties; this many rows rank the features as well as all of them."""
FIRST_PENALTY = 3.0
"""What LassoNet's own estimate comes to, which takes longer than the path. Features that drop at once rank last."""


def flowing_features(encoder: Encoder, data: TrainingData, config: Config, seed: int) -> frozenset[str]:
    """The names of the features that may move: all, or the `top_features` most important ones"""
    names = encoder.schema.names
    if config.top_features is None:
        return frozenset(names)
    if config.top_features > len(names):
        raise ConfigError(f"top_features is {config.top_features}, but there are only {len(names)} features.")
    importance = _importance(encoder, data, seed)
    order = np.argsort(-importance, kind="stable")[: config.top_features]
    return frozenset(names[j] for j in order)


def _importance(encoder: Encoder, data: TrainingData, seed: int) -> NDArray[np.float64]:
    """(F,) the penalty at which LassoNet drops each feature; a circle's two columns drop together"""
    from lassonet import LassoNetClassifier  # Here, because it takes most of a second and is seldom needed.

    rows = np.random.default_rng(seed).permutation(len(data.points))[:ROWS]
    groups = [list(range(where.start, where.stop)) for where in encoder.columns]
    net = LassoNetClassifier(
        hidden_dims=(64,),
        groups=groups if len(groups) < encoder.width else None,  # groups of one only slow it down, thirty times on Musk
        lambda_start=FIRST_PENALTY,
        path_multiplier=1.2,
        n_iters=(200, 40),
        batch_size=512,
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
