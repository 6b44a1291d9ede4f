"""Multi-layer perceptron."""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from ..arrays import Codes, Encoded, Probabilities
from .member import SkopsMember, require_every_class


class Mlp(SkopsMember):
    """A fitted perceptron."""

    name, kind = "mlp", MLPClassifier
    trusted = ("sklearn.neural_network._stochastic_optimizers.AdamOptimizer",)

    def predict_proba(self, x: Encoded) -> Probabilities:
        """x (n, D) -> (n, K)"""
        layers = list(zip(self.model.coefs_, self.model.intercepts_, strict=True))
        hidden = x
        for weight, bias in layers[:-1]:
            hidden = np.maximum(hidden @ weight + bias, 0.0)
        output = hidden @ layers[-1][0] + layers[-1][1]
        if output.shape[1] > 1:
            return np.asarray(softmax(output, axis=1))
        positive = expit(output[:, 0])
        return np.stack([1.0 - positive, positive], axis=1)


@dataclass(frozen=True, slots=True)
class MlpRecipe:
    """Layers, penalty and training length; it stops early on a tenth of the training rows."""

    hidden: tuple[int, ...] = (128, 64)
    alpha: float = 1e-2
    learning_rate: float = 5e-3
    batch: int = 64
    max_epochs: int = 100
    patience: int = 10

    def fit(self, x: Encoded, y: Codes, classes: int, seed: int) -> Mlp:
        """x (n, D), y (n,) -> Mlp"""
        require_every_class(y, classes)
        model = MLPClassifier(
            self.hidden,
            alpha=self.alpha,
            learning_rate_init=self.learning_rate,
            batch_size=min(self.batch, len(x)),
            max_iter=self.max_epochs,
            # Ten rows a class, so that its stratified tenth holds a row of each.
            early_stopping=bool(np.bincount(y).min() >= 10),
            n_iter_no_change=self.patience,
            random_state=seed,
        )
        with warnings.catch_warnings():
            # max_epochs is the recipe's choice; to end there is no fault.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return Mlp(model.fit(x, y))
