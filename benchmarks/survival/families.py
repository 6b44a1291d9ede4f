"""The families of group d: what models/evaluation/survival.py has, boosting by leaves (LightGBM), and TabM."""

import numpy as np
import tabm
import torch
from lightgbm import LGBMClassifier
from sklearn.base import ClassifierMixin
from torch.nn import functional

from models.arrays import Codes, Encoded, Probabilities
from models.evaluation.survival import plain_families


def all_families(seed: int) -> dict[str, ClassifierMixin]:
    """A classifier of each family, by its name, not fitted yet"""
    return {
        **plain_families(seed),
        "lightgbm": _boosting_by_leaves(150, 15, 0.05, seed),
        "lightgbm-small": _boosting_by_leaves(80, 7, 0.1, seed),
        "tabm": TabM(seed),
    }


def _boosting_by_leaves(trees: int, leaves: int, rate: float, seed: int) -> ClassifierMixin:
    return LGBMClassifier(
        n_estimators=trees,
        num_leaves=leaves,
        learning_rate=rate,
        subsample=0.8,
        subsample_freq=1,
        random_state=seed,
        n_jobs=1,
        verbosity=-1,
    )


class TabM:
    """A network that is many networks at once (Gorishniy et al., 2025), with few settings of its own."""

    steps, batch = 800, 256

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, x: Encoded, y: Codes) -> "TabM":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            points, labels = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)
            self._net = tabm.TabM.make(
                n_num_features=x.shape[1], d_out=int(y.max()) + 1, k=16, d_block=96, n_blocks=2, dropout=0.1
            )
            optimizer = torch.optim.AdamW(self._net.parameters(), lr=2e-3, weight_decay=3e-4)
            self._net.train()
            for _ in range(self.steps):
                rows = torch.randint(len(points), (self.batch,))
                logits = self._net(points[rows])
                wanted = labels[rows][:, None].expand(logits.shape[:2])
                loss = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
        self._net.eval()
        return self

    def predict_proba(self, x: Encoded) -> Probabilities:
        """x (n, D) -> (n, K), the mean of the networks"""
        points = torch.from_numpy(x.astype(np.float32))
        with torch.inference_mode():
            shares = [self._net(part).softmax(dim=2).mean(dim=1) for part in torch.split(points, 4096)]
            mean: Probabilities = torch.cat(shares).double().numpy()
        return mean
