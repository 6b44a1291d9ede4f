"""Verified search against boundaries that are known: which questions are asked, in which order, and what is kept."""

from dataclasses import replace

import numpy as np
import pytest

from models.config import VerificationConfig
from models.model import RecourseModel
from models.search.candidates import Candidates, measure
from models.search.verification import Verification, verify
from models.space.feasible import FeasibleSet
from tests.fakes.plane import Boundary, linear_model, plane
from tests.models.tiny import feasible_by_schema

YES = np.ones(1, dtype=np.int64)
PATH = VerificationConfig().cost_weights
LOGITS = [float(np.log((1 + np.sqrt(1 - 4 * weight)) / (1 - np.sqrt(1 - 4 * weight)))) for weight in PATH]
FRONTIER = [min(3.0 + logit, 9.0) for logit in LOGITS]
"""Where the surrogate's answers lie: the slope a (1 - a) of its agreement a = sigmoid(x - 3) is the cost weight."""


@pytest.fixture(scope="module")
def model() -> RecourseModel:
    """The surrogate knows of x alone: the larger, the better."""
    return linear_model(plane("x", "y"), [1.0, 0.0], bias=-3.0)


def at_home(model: RecourseModel, count: int = 1) -> FeasibleSet:
    return feasible_by_schema(model.encoder, np.zeros((count, 2)))


def candidates(model: RecourseModel, *points: tuple[float, float]) -> Candidates:
    """The points as candidates of one record at the origin"""
    return measure(model, np.array([points]), YES, at_home(model))


def beyond(least: float) -> Boundary:
    """One black box that accepts x from `least` on"""
    return Boundary(lambda records: records[:, 0] >= least)


def verified(
    model: RecourseModel, some: Candidates, boxes: Boundary, limit: int, wanted: float = 1.0, rounds: int = 30
) -> Verification:
    return verify(model, some, YES, at_home(model), boxes, wanted, np.array([limit]), rounds)


@pytest.mark.parametrize(("least", "asked"), [(5.0, 1), (6.6, 2), (7.2, 3), (8.0, 4), (9.0, 5)])
def test_the_answer_goes_up_the_frontier_until_it_holds(model: RecourseModel, least: float, asked: int) -> None:
    boxes = beyond(least)
    answer = verified(model, candidates(model, (4.0, 0.0)), boxes, limit=9)
    assert boxes.records[:, 0] == pytest.approx(FRONTIER[:asked], abs=0.15)
    assert answer.found.tolist() == [True] and answer.best.records[0, 0, 0] == boxes.records[-1, 0]
    assert answer.queries.tolist() == answer.charged.tolist() == [asked] and answer.agreement.tolist() == [1.0]


def test_an_answer_that_holds_is_not_made_cheaper(model: RecourseModel) -> None:
    """One model accepts from x = 1 on: the answer stays where the surrogate is sure, and nothing more is asked."""
    boxes = beyond(1.0)
    answer = verified(model, candidates(model, (4.0, 0.0)), boxes, limit=50)
    assert answer.queries.tolist() == [1] and answer.best.records[0, 0, 0] == pytest.approx(FRONTIER[0], abs=0.15)


def test_more_queries_never_change_an_answer_that_holds(model: RecourseModel) -> None:
    few, many = (verified(model, candidates(model, (4.0, 0.0)), beyond(7.2), limit) for limit in (3, 50))
    assert few.best.records.tolist() == many.best.records.tolist()


def test_where_the_path_fails_the_others_are_asked_the_most_robust_first(model: RecourseModel) -> None:
    """Without local search the path goes through the best of the candidates at each weight: 6, 7 and 8."""
    some = candidates(model, (4.0, 1.0), (7.0, 1.0), (5.0, 1.0), (6.0, 1.0), (8.0, 1.0))
    boxes = Boundary(lambda records: (records[:, 0] > 4.5) & (records[:, 0] < 5.5))
    answer = verified(model, some, boxes, limit=9, rounds=0)
    asked = boxes.records[:, 0].tolist()
    assert asked == [6.0, 7.0, 8.0, 5.0], "no record is asked about twice"
    assert answer.queries.tolist() == [4]
    assert answer.found.tolist() == [True] and answer.best.records[0, 0].tolist() == [5.0, 1.0]


def test_no_more_others_are_asked_than_the_configuration_says(model: RecourseModel) -> None:
    nobody, some = beyond(99.0), candidates(model, *((float(x), 0.0) for x in range(1, 10)))
    search = replace(model.config.search, verification=VerificationConfig(cost_weights=(0.03,), fallbacks=2))
    few = replace(model, config=replace(model.config, search=search))
    answer = verified(few, some, nobody, limit=50, rounds=0)
    assert nobody.records[:, 0].tolist()[-2:] in ([9.0, 8.0], [8.0, 7.0]) and answer.queries[0] <= 3
    assert answer.found.tolist() == [False]


def test_where_nothing_holds_the_best_share_of_votes_is_kept(model: RecourseModel) -> None:
    """Three boxes: the first and second accept x = 2, none accepts more of it."""
    accepts = [
        lambda records: records[:, 0] == 2,
        lambda records: records[:, 0] <= 2,
        lambda records: records[:, 1] > 9,
    ]
    some = candidates(model, (1.0, 0.0), (2.0, 0.0), (3.0, 0.0))
    answer = verified(model, some, Boundary(*accepts), limit=9, rounds=0)
    assert answer.found.tolist() == [False] and answer.best.records[0, 0, 0] == 2
    assert answer.agreement.tolist() == pytest.approx([2 / 3]) and answer.votes[:, 0].tolist() == [True, True, False]


def test_no_record_asks_more_than_its_own_limit_and_none_without_queries_asks(model: RecourseModel) -> None:
    count, limit = 3, np.array([0, 2, 9])
    points = np.tile([[[4.0, 0.0], [6.0, 0.0]]], (count, 1, 1))
    some = measure(model, points, np.repeat(YES, count), at_home(model, count))
    boxes = beyond(7.2)
    answer = verify(model, some, np.repeat(YES, count), at_home(model, count), boxes, 1.0, limit, 30)
    assert answer.queries.tolist() == [0, 2, 3] and len(boxes.records) == 5
    assert answer.found.tolist() == [False, False, True] and np.isnan(answer.agreement[0])
    assert answer.best.records[0, 0, 0] == pytest.approx(FRONTIER[0], abs=0.15)


def test_what_half_of_the_models_accept_is_enough_where_half_is_asked_for(model: RecourseModel) -> None:
    boxes = Boundary(lambda records: records[:, 0] >= 1, lambda records: records[:, 0] >= 99)
    answer = verified(model, candidates(model, (4.0, 0.0)), boxes, limit=9, wanted=0.5)
    assert answer.found.tolist() == [True] and answer.queries.tolist() == [1]


def test_what_is_said_of_the_record_as_it_is_is_not_asked_again(model: RecourseModel) -> None:
    """At the highest weight all changes go home; that record was asked about before."""
    search = replace(model.config.search, verification=VerificationConfig(cost_weights=(2.0, 0.03), fallbacks=0))
    dear = replace(model, config=replace(model.config, search=search))
    some, limit = candidates(model, (4.0, 0.0)), np.array([9])
    for known, asked in ((np.array([False]), 2), (np.array([True]), 1)):
        boxes = beyond(5.0)
        answer = verify(dear, some, YES, at_home(model), boxes, 1.0, limit, 30, known)
        assert len(boxes.records) == asked and answer.found.tolist() == [True]
