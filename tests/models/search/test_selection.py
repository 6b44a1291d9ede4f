"""Choosing among candidates whose objective is known."""

import numpy as np
import pytest

from models.arrays import Records
from models.model import RecourseModel
from models.search.candidates import Candidates, measure
from models.search.selection import best_at_cost_weight, freeze_main_change
from tests.fakes.plane import linear_model, plane
from tests.models.tiny import feasible_by_schema

YES, HOME = np.ones(1, dtype=np.int64), np.zeros((1, 2))
NEAR, FAR = [1.0, 0.0], [4.0, 0.0]
"""Expected agreement 0.12 and 0.73, costs 1 and 4: with a cost weight under 0.2 the far one is the better."""


@pytest.fixture(scope="module")
def model() -> RecourseModel:
    return linear_model(plane("x", "y"), [1.0, 0.0], bias=-3.0)


def measured(model: RecourseModel, *points: list[float]) -> Candidates:
    return measure(model, np.array([points]), YES, feasible_by_schema(model.encoder, HOME))


def chosen(model: RecourseModel, weight: float, least: float, rounds: int = 0) -> Records:
    feasible = feasible_by_schema(model.encoder, HOME)
    both = measured(model, NEAR, FAR)
    best = best_at_cost_weight(model, both, YES, feasible, np.array([weight]), least, rounds)
    record: Records = best.records[0, 0]
    return record


def test_the_surrogate_of_these_tests_is_what_they_say(model: RecourseModel) -> None:
    both = measured(model, NEAR, FAR)
    np.testing.assert_allclose(both.agreement[0], 1 / (1 + np.exp([2.0, -1.0])), atol=1e-5)
    np.testing.assert_allclose(both.cost[0], [1.0, 4.0])


def test_the_least_agreement_goes_before_the_objective(model: RecourseModel) -> None:
    """With a cost weight of 0.3 the near one is the better; only the far one lies above the least agreement of 0.5."""
    assert chosen(model, weight=0.3, least=0.0).tolist() == NEAR
    assert chosen(model, weight=0.3, least=0.5).tolist() == FAR


def test_where_none_lies_above_the_least_the_objective_decides(model: RecourseModel) -> None:
    assert chosen(model, weight=0.3, least=0.9).tolist() == NEAR
    assert chosen(model, weight=0.1, least=0.9).tolist() == FAR


def test_polishing_keeps_above_the_least_what_has_reached_it(model: RecourseModel) -> None:
    """With so high a cost weight all would go home, where 0.05 of the models agree; half agree from x = 3 on."""
    free, held = (chosen(model, weight=2.0, least=least, rounds=30) for least in (0.0, 0.5))
    assert free.tolist() == [0.0, 0.0]
    assert 3.0 <= held[0] < 3.1 and held[1] == 0.0


def test_the_main_change_is_the_one_that_is_frozen(model: RecourseModel) -> None:
    feasible = feasible_by_schema(model.encoder, np.zeros((2, 2)))
    answer = measure(model, np.array([[[1.0, -2.0]], [[0.0, 0.0]]]), np.repeat(YES, 2), feasible)
    frozen, possible = freeze_main_change(model, answer, feasible)
    assert possible.tolist() == [True, False]
    assert frozen.movable.tolist() == [[True, False], [True, True]]
