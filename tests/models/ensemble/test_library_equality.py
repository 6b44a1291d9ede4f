"""The short ways to an answer give the library's own answer."""

import warnings

import numpy as np
import pytest
import torch
from xgboost import DMatrix

from models.ensemble.forest import Forest
from models.ensemble.mlp import Mlp
from models.ensemble.svm import Svm, SvmRecipe
from models.ensemble.tabnet import TabNet
from models.ensemble.xgb import Xgb
from tests.models.ensemble.small import RECIPES, blobs, fitted

with warnings.catch_warnings():
    # The library's estimator, which the project does not use, imports from a place that scipy will drop.
    warnings.simplefilter("ignore", DeprecationWarning)
    from pytorch_tabnet.tab_model import TabNetClassifier

BOTH = pytest.mark.parametrize("classes", [2, 4])


@BOTH
def test_the_forest_sums_its_trees_as_scikit_learn_does(classes: int) -> None:
    points = blobs(classes)
    member = fitted("forest", classes)
    assert isinstance(member, Forest)
    np.testing.assert_array_equal(member.predict_proba(points.x), member.model.predict_proba(points.x))


@BOTH
def test_the_perceptron_is_scikit_learns(classes: int) -> None:
    points = blobs(classes)
    member = fitted("mlp", classes)
    assert isinstance(member, Mlp)
    np.testing.assert_allclose(member.predict_proba(points.x), member.model.predict_proba(points.x), rtol=1e-12)


@BOTH
def test_the_most_probable_class_is_the_one_that_svc_names(classes: int) -> None:
    random = np.random.default_rng(0)
    # Labels by chance: the pairwise votes of four classes often tie.
    x, y, unseen = random.normal(size=(200, 2)), np.arange(200) % classes, random.normal(size=(1300, 2))
    member = SvmRecipe().fit(x, y, classes, seed=0)
    np.testing.assert_array_equal(member.predict_proba(unseen).argmax(axis=1), member.model.predict(unseen))


def test_the_margin_is_libsvms_decision() -> None:
    points, unseen = blobs(2), blobs(2, rows=1300, seed=1).x
    member = SvmRecipe().fit(points.x, points.y, 2, seed=0)
    assert isinstance(member, Svm)
    answer = member.predict_proba(unseen)
    logits = np.log(answer[:, 1]) - np.log(answer[:, 0])
    np.testing.assert_allclose(logits, member.slope * member.model.decision_function(unseen), atol=1e-9)


@BOTH
def test_xgboost_in_place_is_xgboost_by_dmatrix(classes: int) -> None:
    points = blobs(classes)
    member = fitted("xgboost", classes)
    assert isinstance(member, Xgb)
    whole = member.booster.predict(DMatrix(points.x))
    expected = np.stack([1.0 - whole, whole], axis=1) if classes == 2 else whole
    np.testing.assert_array_equal(member.predict_proba(points.x), expected)


@BOTH
def test_tabnet_is_the_librarys_tabnet(classes: int) -> None:
    points = blobs(classes)
    member = fitted("tabnet", classes)
    assert isinstance(member, TabNet)
    library = TabNetClassifier(verbose=0, device_name="cpu")
    library.network = member.network
    expected = library.predict_proba(points.x)
    np.testing.assert_allclose(member.predict_proba(points.x), expected, atol=1e-6)


def test_training_tabnet_leaves_the_random_state_and_the_threads_of_the_process_alone() -> None:
    points = blobs(2)
    threads = torch.get_num_threads()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    torch.set_num_threads(2)
    try:
        RECIPES["tabnet"].fit(points.x, points.y, 2, seed=0)
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
