"""The choice of a recipe."""

from collections.abc import Callable

import numpy as np
import pytest

from models.ensemble.forest import ForestRecipe
from models.ensemble.knn import KnnRecipe
from models.ensemble.member import Recipe
from models.ensemble.recipes import QUICK, TUNED, Shortlist, choose_recipe, cross_validated_accuracy
from models.ensemble.tabnet import TabNetRecipe, planned_epochs
from tests.models.ensemble.small import blobs


def nothing() -> None:
    """Nobody watches."""


def choose(recipes: tuple[Recipe, ...], rows: int = 10_000, scored: Callable[[], None] = nothing) -> Recipe:
    points = blobs(4)
    return choose_recipe(Shortlist(recipes, rows), points.x, points.y, 4, seed=0, scored=scored)


def test_the_recipe_that_generalises_wins() -> None:
    blunt, good = KnnRecipe(neighbors=150), KnnRecipe(neighbors=5)
    assert choose((blunt, good)) == good
    assert choose((good, blunt)) == good


def test_of_equals_the_first_wins() -> None:
    first, second = ForestRecipe(trees=20, min_samples_split=2), ForestRecipe(trees=20, min_samples_split=3)
    points = blobs(2, rows=60)
    far = Shortlist((second, first), 60)
    assert choose_recipe(far, points.x * 5.0, points.y, 2, seed=0, scored=nothing) == second


def test_every_scored_recipe_is_told_and_a_single_one_is_not_scored() -> None:
    told: list[None] = []
    choose((KnnRecipe(3), KnnRecipe(5), KnnRecipe(7)), scored=lambda: told.append(None))
    assert len(told) == 3
    choose((KnnRecipe(3),), scored=lambda: told.append(None))
    assert len(told) == 3


def test_accuracy_is_measured_on_rows_that_the_model_did_not_see() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(300, 2)), random.integers(0, 2, 300)
    # One neighbour is right on every row it has seen, and guesses on the others.
    assert cross_validated_accuracy(KnnRecipe(neighbors=1), x, y, 2, seed=0) == pytest.approx(0.5, abs=0.1)


def test_the_tuned_grid_has_the_size_of_the_papers() -> None:
    sizes = {name: len(top_candidates.recipes) for name, top_candidates in TUNED.items()}
    assert sizes == {"knn": 8, "svm": 12, "forest": 12, "mlp": 12, "xgboost": 12, "catboost": 18, "tabnet": 4}
    for shortlists in (QUICK, TUNED):
        assert all(
            len(set(top_candidates.recipes)) == len(top_candidates.recipes) for top_candidates in shortlists.values()
        )


def test_the_tuned_tabnet_trains_for_the_papers_epochs_on_data_of_any_size() -> None:
    recipes = [recipe for recipe in TUNED["tabnet"].recipes if isinstance(recipe, TabNetRecipe)]
    for recipe, epochs in zip(recipes, (200, 200, 500, 500), strict=True):
        assert planned_epochs(recipe, batches=1) == planned_epochs(recipe, batches=40) == epochs
