"""XGBoost."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

import numpy as np
from xgboost import Booster, XGBClassifier
from xgboost.core import XGBoostError

from ..arrays import Codes, Encoded, Probabilities
from ..errors import ArtifactError
from .member import require_every_class

FILE, DIGEST_FILE = "xgboost.ubj", "xgboost.sha256"
"""The library reads beyond the end of a file that was cut, and may crash: the digest is checked before it reads."""


@dataclass(frozen=True)
class Xgb:
    """A fitted booster."""

    name: ClassVar[str] = "xgboost"
    booster: Booster

    @property
    def width(self) -> int:
        """D"""
        return int(self.booster.num_features())

    def predict_proba(self, x: Encoded) -> Probabilities:
        """x (n, D) -> (n, K), in place: no DMatrix is built."""
        answer = np.asarray(self.booster.inplace_predict(np.ascontiguousarray(x, dtype=np.float32)))
        if answer.ndim == 1:
            answer = np.stack([1.0 - answer, answer], axis=1)
        return answer.astype(np.float64)

    def save(self, folder: Path) -> None:
        self.booster.save_model(folder / FILE)
        (folder / DIGEST_FILE).write_text(_digest(folder / FILE))

    @classmethod
    def load(cls, folder: Path) -> "Xgb":
        path = folder / FILE
        if not path.is_file():
            raise ArtifactError(f"The model file '{path}' is missing; train the ensemble again.")
        damaged = f"The model file '{path}' is damaged; train the ensemble again."
        # Models from before the digest have none; their folder's seal was checked.
        digest = folder / DIGEST_FILE
        if digest.is_file() and digest.read_bytes() != _digest(path).encode():
            raise ArtifactError(damaged)
        booster = Booster({"nthread": 1})
        try:
            booster.load_model(path)
        except XGBoostError as error:
            raise ArtifactError(damaged) from error
        booster.set_param({"nthread": 1})
        return cls(booster)


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class XgbRecipe:
    """The number, the depth and the step of the trees."""

    trees: int = 300
    max_depth: int = 5
    learning_rate: float = 0.1

    def fit(self, x: Encoded, y: Codes, classes: int, seed: int) -> Xgb:
        """x (n, D), y (n,) -> Xgb"""
        require_every_class(y, classes)
        model = XGBClassifier(
            n_estimators=self.trees,
            max_depth=self.max_depth,
            learning_rate=self.learning_rate,
            random_state=seed,
            n_jobs=1,
            device="cpu",
            verbosity=0,
        )
        return Xgb(model.fit(x, y).get_booster())
