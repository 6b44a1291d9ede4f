"""Disagreement of models whose probabilities are known."""

import numpy as np
import pytest

from benchmarks.experiments.disagreement import bootstrap, mutual_information, rank_correlation, tail_ratio, variance

SURE, UNSURE = (0.0, 1.0), (0.5, 0.5)


def test_models_that_are_sure_of_opposite_classes_disagree_most() -> None:
    said = np.array([[SURE, SURE, UNSURE], [SURE[::-1], SURE, UNSURE]])
    assert mutual_information(said) == pytest.approx([np.log(2), 0.0, 0.0], abs=1e-9)
    assert variance(said, np.array([1, 0, 1])) == pytest.approx([0.25, 0.0, 0.0])


def test_disagreement_that_grows_as_density_falls_has_a_rho_of_one() -> None:
    density = np.arange(100.0)
    assert rank_correlation(density, -(density**3)) == pytest.approx(1.0)
    assert rank_correlation(density, density) == pytest.approx(-1.0)
    assert rank_correlation(density, np.ones(100)) == 0.0
    assert tail_ratio(density, np.where(density < 20, 3.0, np.where(density >= 80, 2.0, 9.0))) == pytest.approx(1.5)


def test_the_interval_holds_the_mean_and_narrows_with_more_records() -> None:
    random = np.random.default_rng(0)
    few, many = random.normal(5.0, 1.0, 30), random.normal(5.0, 1.0, 3000)
    spans = [bootstrap(lambda one, other: float(one.mean()), each, each, random) for each in (few, many)]
    assert all(low < 5.0 < high for low, high in spans)
    assert spans[0][1] - spans[0][0] > 5 * (spans[1][1] - spans[1][0])
