"""CatBoost."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from catboost import CatBoostClassifier, CatBoostError

from ..arrays import Codes, Encoded, Probabilities
from ..errors import ArtifactError
from .member import require_every_class

FILE = "catboost.cbm"


@dataclass(frozen=True)
class Cat:
    """A fitted CatBoost model."""

    name: ClassVar[str] = "catboost"
    model: CatBoostClassifier

    @property
    def width(self) -> int:
        """D"""
        return len(self.model.feature_names_)

    def predict_proba(self, x: Encoded) -> Probabilities:
        """x (n, D) -> (n, K)"""
        return np.asarray(self.model.predict_proba(x, thread_count=1), dtype=np.float64)

    def save(self, folder: Path) -> None:
        self.model.save_model(str(folder / FILE), format="cbm")

    @classmethod
    def load(cls, folder: Path) -> "Cat":
        path = folder / FILE
        if not path.is_file():
            raise ArtifactError(f"The model file '{path}' is missing; train the ensemble again.")
        model = CatBoostClassifier()
        try:
            model.load_model(str(path), format="cbm")
        except CatBoostError as error:
            raise ArtifactError(f"The model file '{path}' is damaged; train the ensemble again.") from error
        return cls(model)


@dataclass(frozen=True, slots=True)
class CatRecipe:
    """The number, the depth, the penalty and the step of the trees."""

    trees: int = 300
    depth: int = 6
    l2_leaf_reg: float = 3.0
    learning_rate: float = 0.1

    def fit(self, x: Encoded, y: Codes, classes: int, seed: int) -> Cat:
        """x (n, D), y (n,) -> Cat; the loss follows from K, and nothing is printed or written."""
        require_every_class(y, classes)
        model = CatBoostClassifier(
            iterations=self.trees,
            depth=self.depth,
            l2_leaf_reg=self.l2_leaf_reg,
            learning_rate=self.learning_rate,
            loss_function="Logloss" if classes == 2 else "MultiClass",
            random_seed=seed,
            thread_count=1,
            task_type="CPU",
            allow_writing_files=False,
            logging_level="Silent",
        )
        return Cat(model.fit(x, y))
