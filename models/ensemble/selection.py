"""The choice of a recipe by 3-fold cross-validation on training rows."""

from collections.abc import Callable

import numpy as np
from sklearn.model_selection import StratifiedKFold

from models.ensemble.member import Codes, Recipe
from models.ensemble.recipes import Shortlist
from models.ensemble.sampling import stratified_rows
from models.matrix import Encoded

FOLDS = 3


def choose_recipe(
    shortlist: Shortlist, x: Encoded, y: Codes, classes: int, seed: int, scored: Callable[[], None]
) -> Recipe:
    """The recipe of best mean accuracy, the first of equals; x (n, D), y (n,); `scored` is called after each recipe."""
    if len(shortlist.recipes) == 1:
        return shortlist.recipes[0]
    rows = stratified_rows(y, shortlist.rows, seed)
    accuracies = []
    for recipe in shortlist.recipes:
        accuracies.append(cross_validated_accuracy(recipe, x[rows], y[rows], classes, seed))
        scored()
    return shortlist.recipes[int(np.argmax(accuracies))]


def cross_validated_accuracy(recipe: Recipe, x: Encoded, y: Codes, classes: int, seed: int) -> float:
    """The mean accuracy over FOLDS stratified folds, each scored by a model that did not see it; x (n, D), y (n,)."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    accuracies = []
    for learn, score in folds.split(x, y):
        member = recipe.fit(x[learn], y[learn], classes, seed)
        accuracies.append(np.mean(member.predict_proba(x[score]).argmax(axis=1) == y[score]))
    return float(np.mean(accuracies))
