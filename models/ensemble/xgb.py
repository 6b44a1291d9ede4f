"""XGBoost."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from xgboost import Booster, XGBClassifier
from xgboost.core import XGBoostError

from models.ensemble.member import Codes, Probabilities, require_every_class
from models.errors import ArtifactError
from models.matrix import Encoded

FILE = "xgboost.ubj"


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

    @classmethod
    def load(cls, folder: Path) -> "Xgb":
        path = folder / FILE
        if not path.is_file():
            raise ArtifactError(f"The model file '{path}' is missing; train the ensemble anew.")
        booster = Booster({"nthread": 1})
        try:
            booster.load_model(path)
        except XGBoostError as error:
            raise ArtifactError(f"The model file '{path}' is damaged; train the ensemble anew.") from error
        booster.set_param({"nthread": 1})
        return cls(booster)


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
