"""Residuals: what is known at a few points is carried over to their neighbours, and no further."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.config import ResidualConfig
from models.training.residual_ridge import fit_residuals, squared_distances

DEFAULT = ResidualConfig()


def kernel(points: np.ndarray, others: np.ndarray, width: float) -> np.ndarray:
    return np.asarray(np.exp(-np.sqrt(squared_distances(points, others)) / width))


def nothing(points: np.ndarray) -> np.ndarray:
    """Logits that are all the same (n, 1)"""
    return np.zeros((len(points), 1))


def wave(points: np.ndarray) -> np.ndarray:
    """A smooth function of two columns that adds up to nothing over the classes (n, 2)"""
    height = 0.3 * np.sin(points[:, 0]) * np.cos(points[:, 1])
    return np.stack([height, -height], axis=1)


def test_a_smooth_difference_is_learned_and_fades_far_away() -> None:
    random = np.random.default_rng(0)
    known, others = random.uniform(-2, 2, (300, 2)), random.uniform(-1.8, 1.8, (200, 2))
    residuals = fit_residuals(known, nothing(known), wave(known), DEFAULT)
    assert residuals is not None
    added = residuals.at(others, nothing(others))
    assert added.shape == (200, 2)
    assert np.abs(added - wave(others)).mean() < 0.2 * np.abs(wave(others)).mean()
    assert np.abs(residuals.at(np.array([[50.0, -50.0]]), np.zeros((1, 1)))).max() < 1e-12


def test_what_is_seen_alike_is_corrected_alike() -> None:
    """The error depends on the logits only: points far from all known ones are set right by those with equal logits."""
    random = np.random.default_rng(3)
    known, logits = random.uniform(-2, 2, (200, 4)), random.uniform(-1, 1, (200, 1))
    residuals = fit_residuals(known, logits, wave(np.hstack([2 * logits, 0 * logits])), DEFAULT)
    assert residuals is not None and residuals.alike > 0
    asked = random.uniform(-0.9, 0.9, (50, 1))
    wanted = wave(np.hstack([2 * asked, 0 * asked]))
    np.testing.assert_allclose(residuals.at(np.full((50, 4), 40.0), asked), wanted, atol=0.05)


def test_both_kernels_are_added_up() -> None:
    """At the known points themselves nothing is left but what the ridge holds back."""
    random = np.random.default_rng(4)
    known, logits = random.uniform(-2, 2, (300, 2)), random.uniform(-1, 1, (300, 1))
    lacking = wave(known) + wave(np.hstack([2 * logits, 0 * logits]))
    residuals = fit_residuals(known, logits, lacking, DEFAULT)
    assert residuals is not None and residuals.alike > 0
    left = lacking - residuals.at(known, logits)
    assert min(np.abs(left - ridge * residuals.weights).max() for ridge in DEFAULT.ridges) < 1e-3


def test_noise_is_not_carried_over() -> None:
    random = np.random.default_rng(1)
    known = random.uniform(-2, 2, (200, 6))
    noise = random.normal(size=(200, 1))
    assert fit_residuals(known, random.normal(size=(200, 3)), np.hstack([noise, -noise]), DEFAULT) is None


@given(count=st.integers(0, DEFAULT.least_points - 1))
def test_too_few_points_teach_nothing(count: int) -> None:
    assert fit_residuals(np.zeros((count, 2)), np.zeros((count, 1)), np.ones((count, 2)), DEFAULT) is None


def test_equal_points_do_no_harm() -> None:
    assert fit_residuals(np.ones((20, 3)), np.ones((20, 2)), np.full((20, 2), 0.1), DEFAULT) is None


def test_leaving_one_out_is_what_it_says() -> None:
    """The closed form against 30 regressions, each without one point."""
    random = np.random.default_rng(2)
    points = random.normal(size=(30, 2))
    lacking = wave(points)
    inverse = np.linalg.inv(kernel(points, points, 0.7) + DEFAULT.ridges[0] * np.eye(30))
    short = (inverse @ lacking) / np.diag(inverse)[:, None]
    for left_out in range(30):
        kept = np.arange(30) != left_out
        ridged = kernel(points[kept], points[kept], 0.7) + DEFAULT.ridges[0] * np.eye(29)
        said = kernel(points[[left_out]], points[kept], 0.7) @ np.linalg.solve(ridged, lacking[kept])
        np.testing.assert_allclose(lacking[left_out] - said[0], short[left_out], atol=1e-9)


def test_it_can_be_switched_off() -> None:
    known = np.random.default_rng(0).uniform(-2, 2, (100, 2))
    assert fit_residuals(known, nothing(known), wave(known), DEFAULT) is not None
    assert fit_residuals(known, nothing(known), wave(known), ResidualConfig(enabled=False)) is None
