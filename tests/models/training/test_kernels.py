"""The quick kernel sums are the sums that they stand for, wherever the points lie and however many there are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC

from models.training.jury import _margin
from models.training.residual_ridge import BLOCK, Shape, kernel_sums, squared_distances


def plain_sums(
    points: np.ndarray, others: np.ndarray, weights: np.ndarray, gamma: float, shape: Shape = "gaussian"
) -> np.ndarray:
    squares = ((points[:, None] - others[None]) ** 2).sum(axis=2)
    return np.asarray(np.exp(-gamma * (squares if shape == "gaussian" else np.sqrt(squares))) @ weights)


@given(
    count=st.integers(0, 12),
    known=st.integers(1, 9),
    width=st.integers(1, 5),
    gamma=st.floats(0.01, 3.0),
    offset=st.sampled_from([0.0, 40.0]),
    shape=st.sampled_from(["gaussian", "exponential"]),
    seed=st.integers(0, 99),
)
def test_sums(count: int, known: int, width: int, gamma: float, offset: float, shape: Shape, seed: int) -> None:
    random = np.random.default_rng(seed)
    points = offset + random.normal(size=(count, width))
    others, weights = offset + random.normal(size=(known, width)), random.normal(size=(known, 2))
    said = kernel_sums(points, others, weights, gamma, shape)
    assert said.shape == (count, 2)
    np.testing.assert_allclose(said, plain_sums(points, others, weights, gamma, shape), atol=3e-3)


def test_blocks_change_nothing() -> None:
    random = np.random.default_rng(0)
    points, others = random.normal(size=(2 * BLOCK + 7, 3)), random.normal(size=(20, 3))
    weights = random.normal(size=(20, 1))
    np.testing.assert_allclose(
        kernel_sums(points, others, weights, 0.5), plain_sums(points, others, weights, 0.5), atol=1e-4
    )


def test_squared_distances() -> None:
    points, others = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[0.0, 0.0], [0.0, 4.0]])
    np.testing.assert_allclose(squared_distances(points, others), [[0.0, 16.0], [25.0, 9.0]])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_margin_of_a_support_vector_machine_is_the_library_s(classes: int) -> None:
    random = np.random.default_rng(classes)
    points = random.normal(size=(200, 4))
    labels = np.digitize(points[:, 0] + 0.3 * random.normal(size=200), [-0.5, 0.5][: classes - 1])
    juror = SVC(C=3.0, gamma=0.25).fit(points, labels)
    asked = random.normal(size=(50, 4))
    np.testing.assert_allclose(_margin(juror, asked), juror.decision_function(asked), atol=1e-3)
