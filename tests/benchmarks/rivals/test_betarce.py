"""Growing spheres find the nearest point of a half-plane; BetaRCE goes on to where its test is met."""

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.rivals.betarce import BetaConfig, BetaRce, SphereConfig, grow_spheres, layer_points, votes_needed
from models.arrays import Records
from tests.benchmarks.rivals.planes import Thresholds, problem

FINE = SphereConfig(points=200, radius=0.2)
SEVEN = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


def test_layer_points_lie_between_the_radii_and_fill_the_volume() -> None:
    inner, outer = np.full(4000, 1.0), np.full(4000, 2.0)
    lengths = np.linalg.norm(layer_points(4000, 3, inner, outer, np.random.default_rng(0)), axis=1)
    assert lengths.min() >= 1.0 and lengths.max() <= 2.0
    # Half of the volume between the radii 1 and 2 lies within the cube root of 4.5.
    assert (lengths < 4.5 ** (1 / 3)).mean() == pytest.approx(0.5, abs=0.03)


def test_the_nearest_accepted_point_is_found_from_far_and_from_near() -> None:
    encoder = problem(Thresholds(0.0)).encoder

    def accept(trial: Records, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        return trial[:, 0] > 0.0

    starts = np.array([[-2.0, 0.0], [-0.3, 1.0]])
    found = grow_spheres(encoder, starts, accept, FINE, np.random.default_rng(0))
    assert found.found.all() and (found.records[:, 0] > 0).all()
    away = np.linalg.norm(encoder.encode(found.records) - encoder.encode(starts), axis=1)
    least = -starts[:, 0] / encoder.scale[0]
    assert (away >= least).all() and (away <= least + 0.1).all()


def test_of_a_layer_the_nearest_accepted_point_is_kept() -> None:
    encoder, starts = problem(Thresholds(0.0)).encoder, np.array([[-2.0, 0.0]])
    wide = SphereConfig(points=2000, radius=0.8)
    found = grow_spheres(encoder, starts, lambda trial, rows: trial[:, 0] > 0.0, wide, np.random.default_rng(0))
    away = float(np.linalg.norm(encoder.encode(found.records) - encoder.encode(starts)))
    # The layer goes from 0.8 to 1.6.
    assert away == pytest.approx(2.0 / encoder.scale[0], abs=0.1)


def test_what_is_nowhere_is_not_found() -> None:
    encoder, starts = problem(Thresholds(0.0)).encoder, np.array([[-2.0, 0.0]])
    config = SphereConfig(points=5, layers=3)
    random = np.random.default_rng(0)
    found = grow_spheres(encoder, starts, lambda trial, rows: np.zeros(len(trial), bool), config, random)
    assert not found.found.any() and (found.records == starts).all()


def test_seven_models_cannot_meet_nine_tenths_at_ninety_percent() -> None:
    assert votes_needed(7, BetaConfig(delta=0.9, confidence=0.9)) is None
    assert votes_needed(7, BetaConfig(delta=0.8, confidence=0.9)) == 7
    # The median of Beta(5.5, 2.5) is about (5.5 - 1/3) / (8 - 2/3) = 0.70.
    assert votes_needed(7, BetaConfig(delta=0.7, confidence=0.5)) == 5
    rival = BetaRce()
    rival.fit(problem(Thresholds(*SEVEN)))
    assert "reach 0.83 at 90%" in rival.note and "0.9 cannot be met" in rival.note


def test_the_robust_answer_has_every_vote_and_the_base_only_a_majority() -> None:
    lender = Thresholds(*SEVEN)
    record, target = np.array([[-1.0, 0.0]]), np.array([1])
    unreachable = BetaRce(BetaConfig(delta=0.9, spheres=FINE))
    unreachable.fit(problem(lender))
    base = unreachable.explain(record, target)
    assert 0.3 < base[0, 0] < 0.6  # the fourth of seven is at 0.3, the last at 0.6
    rival = BetaRce(BetaConfig(delta=0.8, spheres=FINE))
    rival.fit(problem(lender))
    robust = rival.explain(record, target)
    assert 0.6 < robust[0, 0] < 0.6 + 2 * FINE.radius * 2
    assert rival.queries.asked >= rival.queries.distinct > unreachable.queries.distinct > 0


def test_a_record_that_is_put_twice_is_bought_once() -> None:
    lender = Thresholds(0.0, 0.5)
    rival = BetaRce(BetaConfig(spheres=SphereConfig(points=50, radius=0.001, layers=2)))
    rival.fit(problem(lender))
    rival.explain(np.array([[-2.0, 0.0]]), np.array([1]))
    # A ball of a few steps of the grid holds few distinct records.
    assert rival.queries.distinct == lender.count < rival.queries.asked
