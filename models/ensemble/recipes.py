"""Which recipes are tried for each member, and the choice among them by 3-fold cross-validation on training rows.

`quick` takes a few good defaults, `tuned` the paper's grid (paper, "Evaluation Models").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ..arrays import Codes, Encoded
from .cat import Cat, CatRecipe
from .forest import Forest, ForestRecipe
from .knn import Knn, KnnRecipe
from .member import Member, Recipe, stratified_rows
from .mlp import Mlp, MlpRecipe
from .svm import Svm, SvmRecipe
from .tabnet import TabNet, TabNetRecipe
from .xgb import Xgb, XgbRecipe

Mode: TypeAlias = Literal["quick", "tuned"]

MEMBERS: Mapping[str, type[Member]] = {kind.name: kind for kind in (Knn, Svm, Forest, Mlp, Xgb, Cat, TabNet)}
"""The seven of the paper, by name, in the order of the ensemble."""

MEMBER_NAMES = tuple(MEMBERS)


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The recipes to choose from, the preferred one first, and how many rows the choice may look at."""

    recipes: tuple[Recipe, ...]
    rows: int

    @property
    def units(self) -> int:
        """Units of work: a single recipe is only fitted, several are scored first."""
        return 1 if len(self.recipes) == 1 else 1 + len(self.recipes)


QUICK: Mapping[str, Shortlist] = {
    Knn.name: Shortlist((KnnRecipe(),), 0),
    Svm.name: Shortlist((SvmRecipe(), SvmRecipe(c=10.0, gamma=10.0)), 2000),
    Forest.name: Shortlist((ForestRecipe(min_samples_leaf=5), ForestRecipe()), 2000),
    Mlp.name: Shortlist((MlpRecipe(),), 0),
    Xgb.name: Shortlist((XgbRecipe(100, 3, 0.1), XgbRecipe(300, 5, 0.1)), 20_000),
    Cat.name: Shortlist((CatRecipe(150, 4, 3.0, 0.1), CatRecipe()), 20_000),
    TabNet.name: Shortlist((TabNetRecipe(),), 0),
}

WEIGHTS: tuple[Literal["uniform", "distance"], ...] = ("uniform", "distance")
HIDDEN_LAYERS = ((64, 64), (128, 64), (128, 64, 64), (128, 64, 64, 128))

TUNED: Mapping[str, Shortlist] = {
    Knn.name: Shortlist(tuple(KnnRecipe(k, weights) for k, weights in product((3, 5, 7, 9), WEIGHTS)), 20_000),
    Svm.name: Shortlist(
        tuple(SvmRecipe(c, gamma, None) for c, gamma in product((1.0, 10.0, 100.0), (0.1, 1.0, 10.0, 100.0))), 4000
    ),
    Forest.name: Shortlist(
        tuple(ForestRecipe(n, depth, split) for n, depth, split in product((100, 300), (3, 5, 10), (2, 5))), 20_000
    ),
    Mlp.name: Shortlist(tuple(MlpRecipe(h, a) for h, a in product(HIDDEN_LAYERS, (1e-4, 1e-3, 1e-2))), 10_000),
    Xgb.name: Shortlist(tuple(XgbRecipe(n, d, r) for n, d, r in product((100, 300), (3, 5, 7), (0.03, 0.1))), 20_000),
    Cat.name: Shortlist(
        tuple(CatRecipe(500, d, float(l2), r) for d, l2, r in product((4, 6, 8), (3, 5, 7), (0.03, 0.1))), 10_000
    ),
    TabNet.name: Shortlist(
        tuple(TabNetRecipe(updates=1, epochs=n, learning_rate=r) for n, r in product((200, 500), (0.005, 0.03))), 4000
    ),
}
"""The paper's table of search ranges. The search of a slow member sees a stratified sample of the rows; the winner is
then fitted to all of them."""

SHORTLISTS: Mapping[Mode, Mapping[str, Shortlist]] = {"quick": QUICK, "tuned": TUNED}


FOLDS = 3


def choose_recipe(
    top_candidates: Shortlist, x: Encoded, y: Codes, classes: int, seed: int, scored: Callable[[], None]
) -> Recipe:
    """The recipe of best mean accuracy, the first of equals; x (n, D), y (n,); `scored` is called after each recipe."""
    if len(top_candidates.recipes) == 1:
        return top_candidates.recipes[0]
    rows = stratified_rows(y, top_candidates.rows, seed)
    accuracies = []
    for recipe in top_candidates.recipes:
        accuracies.append(cross_validated_accuracy(recipe, x[rows], y[rows], classes, seed))
        scored()
    return top_candidates.recipes[int(np.argmax(accuracies))]


def cross_validated_accuracy(recipe: Recipe, x: Encoded, y: Codes, classes: int, seed: int) -> float:
    """The mean accuracy over FOLDS stratified folds, each scored by a model that did not see it; x (n, D), y (n,)."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    accuracies = []
    for learn, score in folds.split(x, y):
        member = recipe.fit(x[learn], y[learn], classes, seed)
        accuracies.append(np.mean(member.predict_proba(x[score]).argmax(axis=1) == y[score]))
    return float(np.mean(accuracies))
