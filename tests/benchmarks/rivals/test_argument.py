"""Argumentative ensembling on sets that can be counted by hand, and against the definitions, set by set."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.rivals.argument import Argument, Semantics, preferred
from models.datasets.dataset import Labelled
from tests.benchmarks.rivals.planes import Thresholds, problem

ALIKE = np.zeros(3, dtype=np.intp)


def test_the_largest_set_of_mutually_valid_counterfactuals_is_accepted() -> None:
    # Models 0 and 2 take each other's; model 1 takes only its own.
    valid = np.array([[True, False, True], [False, True, False], [True, True, True]])
    assert preferred(valid, ALIKE, np.array([3.0, 1.0, 2.0]), "s") == (0, 2)
    # Without support model 1's counterfactual is out, and models 0 and 2 stay with theirs.
    assert preferred(valid, ALIKE, np.array([3.0, 1.0, 2.0]), "d") == (0, 2)


def test_d_preferred_lets_a_model_in_whose_own_counterfactual_is_refused() -> None:
    # Everybody takes the counterfactual of model 2, and only their own besides.
    valid = np.array([[True, False, True], [False, True, True], [False, False, True]])
    assert preferred(valid, ALIKE, np.array([1.0, 2.0, 3.0]), "d") == (2,)
    # s-preferred asks for mutual validity, so one model stands alone: the one with the nearest counterfactual.
    assert preferred(valid, ALIKE, np.array([1.0, 2.0, 3.0]), "s") == (0,)


def test_models_that_see_the_applicant_differently_do_not_stand_together() -> None:
    seen = np.array([0, 0, 1])
    assert preferred(np.ones((3, 3), dtype=np.bool_), seen, np.array([3.0, 2.0, 1.0]), "s") == (0, 1)


@pytest.mark.parametrize("semantics", ["s", "d"])
def test_the_answer_is_the_nearest_training_record_that_the_accepted_models_take(semantics: Semantics) -> None:
    training = Labelled(np.array([[-1.0, 0.0], [0.5, 0.0], [1.5, 0.0], [3.0, 0.0]]), np.array([0, 1, 1, 1]))
    lender = Thresholds(0.0, 1.0, 2.0)
    rival = Argument(semantics)
    rival.fit(problem(lender, training))
    answer = rival.explain(np.array([[-2.0, 0.0]]), np.array([1]))
    # Their own are 0.5, 1.5 and 3.0. Mutually valid are those of no two; all three models take 3.0.
    assert answer.tolist() == ([[0.5, 0.0]] if semantics == "s" else [[3.0, 0.0]])
    assert rival.queries.asked == rival.queries.distinct == lender.count == 5


def test_where_no_model_takes_any_training_record_the_record_stays() -> None:
    rival = Argument()
    rival.fit(problem(Thresholds(9.0, 9.5)))
    assert rival.explain(np.array([[-2.0, 0.0]]), np.array([1])).tolist() == [[-2.0, 0.0]]


def accepted_by_definition(valid: NDArray[np.bool_], seen: NDArray[np.intp], safe: bool) -> list[set[int]]:
    """The largest s-preferred (safe) or d-preferred sets of the framework of Jiang et al., by trying every one.

    Arguments 0 to m-1 are the models, m to 2m-1 their counterfactuals. A defeat is an attack, an attack by what one
    supports, or an attack on what supports the other; a safe set defeats nothing that it supports.
    """
    size = len(seen)
    support = np.zeros((2 * size, 2 * size), dtype=np.bool_)
    attack = np.zeros_like(support)
    for model in range(size):
        support[model, size + model] = support[size + model, model] = True
        attack[model, :size] = attack[:size, model] = seen[model] != seen
        attack[model, size:] = attack[size:, model] = ~valid[model]
    defeat = attack | (support @ attack) | (attack @ support)
    sets = [set(each) for count in range(2 * size + 1) for each in combinations(range(2 * size), count)]
    admissible = []
    for each in sets:
        inside = np.isin(np.arange(2 * size), list(each))
        defeated, supported = defeat[inside].any(axis=0), support[inside].any(axis=0)
        attackers = defeat[:, inside].any(axis=1)
        refused = defeated & (supported | inside if safe else inside)
        if not refused.any() and not (attackers & ~defeated).any():
            admissible.append(each)
    largest = max(len(each) for each in admissible)
    return [each for each in admissible if len(each) == largest]


def test_s_preferred_is_what_the_definition_says() -> None:
    random = np.random.default_rng(0)
    for _ in range(60):
        size = int(random.integers(2, 5))
        valid = random.random((size, size)) < 0.6
        np.fill_diagonal(valid, True)
        seen = (random.random(size) < 0.2).astype(np.intp)
        found = preferred(valid, seen, random.random(size), "s")
        expected = accepted_by_definition(valid, seen, safe=True)
        assert {*found, *(size + each for each in found)} in expected
        assert len(accepted_by_definition(valid, seen, safe=False)[0]) == len(expected[0])
