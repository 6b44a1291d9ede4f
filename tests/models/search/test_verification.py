"""Verified search against boundaries that are known: which questions are asked, in which order, and what is kept."""

import numpy as np
import pytest
from numpy.typing import NDArray

from models.arrays import Records
from models.config import VerificationConfig
from models.model import RecourseModel
from models.search.candidates import Candidates, measure
from models.search.verification import Verification, random_directions, verify
from models.space.feasible import FeasibleSet
from tests.fakes.plane import Boundary, linear_model, plane
from tests.models.tiny import feasible_by_schema

YES = np.ones(1, dtype=np.int64)


@pytest.fixture(scope="module")
def model() -> RecourseModel:
    """The surrogate knows of x alone: the larger, the better."""
    return linear_model(plane("x", "y"), [1.0, 0.0], bias=-3.0)


def at_home(model: RecourseModel, count: int = 1) -> FeasibleSet:
    return feasible_by_schema(model.encoder, np.zeros((count, 2)))


def candidates(model: RecourseModel, *points: tuple[float, float]) -> Candidates:
    """The points as candidates of one record at the origin"""
    return measure(model, np.array([points]), YES, np.zeros((1, 2)))


def beyond(least: float) -> Boundary:
    """One black box that accepts x from `least` on"""
    return Boundary(lambda records: records[:, 0] >= least)


def verified(
    model: RecourseModel, levels: Candidates, fallbacks: Candidates, boxes: Boundary, limit: int, wanted: float = 1.0
) -> Verification:
    return verify(model, levels, fallbacks, YES, at_home(model), boxes, wanted, np.array([limit]))


@pytest.mark.parametrize(
    ("least", "asked", "found"),
    [
        (0.5, [4, 2, 1], 1),
        (2.5, [4, 2, 3], 3),
        (3.5, [4, 2, 3], 4),
        (4.5, [4, 6, 5], 5),
        (6.5, [4, 6, 7], 7),
    ],
)
def test_the_levels_are_halved_down_to_the_cheapest_that_holds(
    model: RecourseModel, least: float, asked: list[int], found: int
) -> None:
    levels = candidates(model, *((float(x), 0.0) for x in range(1, 8)))
    boxes = beyond(least)
    answer = verified(model, levels, candidates(model, (9.0, 0.0)), boxes, limit=3)
    assert boxes.records[:, 0].tolist() == asked
    assert answer.found.tolist() == [True] and answer.best.records[0, 0].tolist() == [found, 0.0]
    assert answer.queries.tolist() == answer.charged.tolist() == [3] and answer.agreement.tolist() == [1.0]


def test_where_no_level_holds_the_others_are_asked_the_most_robust_first(model: RecourseModel) -> None:
    levels = candidates(model, (1.0, 0.0), (2.0, 0.0), (3.0, 0.0))
    fallbacks = candidates(model, (5.0, 1.0), (7.0, 1.0), (6.0, 1.0), (8.0, 1.0))
    boxes = Boundary(lambda records: (records[:, 0] > 4) & (records[:, 0] < 6.5))
    answer = verified(model, levels, fallbacks, boxes, limit=5)
    assert boxes.records[:, 0].tolist() == [2, 3, 8, 7, 6]
    assert answer.found.tolist() == [True] and answer.best.records[0, 0].tolist() == [6.0, 1.0]


def test_where_nothing_holds_the_best_share_of_votes_is_kept(model: RecourseModel) -> None:
    """Three boxes: the first and second accept x = 2, none accepts more of it."""
    accepts = [
        lambda records: records[:, 0] == 2,
        lambda records: records[:, 0] <= 2,
        lambda records: records[:, 1] > 9,
    ]
    levels = candidates(model, (1.0, 0.0), (2.0, 0.0), (3.0, 0.0))
    answer = verified(model, levels, candidates(model, (4.0, 0.0)), Boundary(*accepts), limit=9)
    assert answer.found.tolist() == [False] and answer.best.records[0, 0, 0] == 2
    assert answer.agreement.tolist() == pytest.approx([2 / 3]) and answer.votes[:, 0].tolist() == [True, True, False]


def test_no_record_asks_more_than_its_own_limit_and_none_without_queries_asks(model: RecourseModel) -> None:
    count, limit = 3, np.array([0, 2, 9])
    levels = measure(
        model, np.tile([[[4.0, 0.0], [6.0, 0.0]]], (count, 1, 1)), np.repeat(YES, count), np.zeros((count, 2))
    )
    boxes = beyond(3.0)
    answer = verify(model, levels, levels, np.repeat(YES, count), at_home(model, count), boxes, 1.0, limit)
    assert (answer.queries <= limit).all() and answer.queries.sum() == len(boxes.records)
    assert answer.found.tolist() == [False, True, True] and np.isnan(answer.agreement[0])


def test_what_is_left_of_the_queries_shrinks_the_answer_towards_the_boundary(model: RecourseModel) -> None:
    start, least = 6.0, 5.0
    levels = candidates(model, (start, 2.0))
    boxes = beyond(least)
    answer = verified(model, levels, candidates(model, (9.0, 0.0)), boxes, limit=12)
    assert least <= answer.best.records[0, 0, 0] < 5.5 and answer.best.cost[0, 0] < 0.9 * levels.cost[0, 0]
    assert (boxes.records[1:, 0] < start).any() and answer.queries[0] <= 12


def test_plenty_of_queries_find_the_nearest_point_where_the_surrogate_errs(model: RecourseModel) -> None:
    """The boxes want x + y >= 4, which the surrogate does not know: from (4, 0) the nearest lies aside, at (2, 2)."""
    slanted = Boundary(lambda records: records.sum(axis=1) >= 4)
    few, plenty = (
        verified(model, candidates(model, (4.0, 0.0)), candidates(model, (9.0, 0.0)), slanted, limit)
        for limit in (20, 200)
    )
    assert few.best.cost[0, 0] == 4.0
    assert np.sqrt(8) <= plenty.best.cost[0, 0] < 1.1 * np.sqrt(8)
    assert plenty.best.records[0, 0].sum() >= 4 and plenty.queries[0] <= 200


def test_other_directions_are_nearer_by_the_shares_that_are_kept(model: RecourseModel) -> None:
    best = candidates(model, (4.0, 3.0))
    aside = random_directions(model, best, YES, at_home(model), np.random.default_rng(0))
    shares: NDArray[np.float64] = aside.cost[0] / 5.0
    config = VerificationConfig()
    np.testing.assert_allclose(shares, np.repeat(config.kept, config.directions // len(config.kept)), atol=1e-5)
    directions: Records = aside.records[0] / np.linalg.norm(aside.records[0], axis=1, keepdims=True)
    along = directions @ [0.8, 0.6]
    assert along.min() < 0.9 < 0.99 < along.max()
