"""Small data and small recipes, so that every member trains in a moment."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from models.arrays import Codes, Encoded
from models.ensemble.cat import CatRecipe
from models.ensemble.forest import ForestRecipe
from models.ensemble.knn import KnnRecipe
from models.ensemble.member import Member, Recipe
from models.ensemble.mlp import MlpRecipe
from models.ensemble.svm import SvmRecipe
from models.ensemble.tabnet import TabNetRecipe
from models.ensemble.xgb import XgbRecipe

RECIPES: dict[str, Recipe] = {
    "knn": KnnRecipe(neighbors=7),
    "svm": SvmRecipe(),
    "forest": ForestRecipe(trees=12, min_samples_leaf=2),
    "mlp": MlpRecipe(hidden=(16, 16), max_epochs=30),
    "xgboost": XgbRecipe(trees=20, max_depth=3),
    "catboost": CatRecipe(trees=20, depth=4),
    "tabnet": TabNetRecipe(updates=40, epochs=1),
}


@dataclass(frozen=True, eq=False)
class Points:
    """x (n, D), y (n,) in 0..classes-1"""

    x: Encoded
    y: Codes
    classes: int


def blobs(classes: int, rows: int = 240, seed: int = 0) -> Points:
    """Gaussian blobs on a circle of radius 3 in the first two of four columns; the other two are noise."""
    random = np.random.default_rng(seed)
    y = np.arange(rows, dtype=np.int64) % classes
    angle = 2.0 * np.pi * y / classes
    x = random.normal(0.0, 0.7, (rows, 4))
    x[:, 0] += 3.0 * np.cos(angle)
    x[:, 1] += 3.0 * np.sin(angle)
    return Points(x, y, classes)


@cache
def fitted(name: str, classes: int) -> Member:
    """The member by that name on blobs of so many classes; made once, because members do not change."""
    points = blobs(classes)
    return RECIPES[name].fit(points.x, points.y, classes, seed=0)
