"""The dial: within the budget, at its edge, and not dearer than needed."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from models.config import FrontierConfig, SearchConfig
from models.model import Calibration, RecourseModel
from models.search.answers import Explanation
from models.search.frontier import cost_weight_within
from models.search.search import explain
from tests.models.tiny import Task, other_class


def costs_of(found: list[Explanation]) -> NDArray[np.float64]:
    """Of the answers (n,); a record that keeps to itself costs nothing."""
    return np.array([each.counterfactuals[0].cost if each.counterfactuals else 0.0 for each in found])


def cost_at(model: RecourseModel, task: Task, cost_weight: float) -> float:
    records, target = task.test.records, other_class(task.test.labels, 2)
    config = SearchConfig(cost_weight=cost_weight, min_expected_agreement=0.0, seed=2)
    found = explain(model, records, target, config=config)
    return float(costs_of(found).mean())


def test_the_answers_cost_what_they_may(loans_task: Task, tiny_model: RecourseModel) -> None:
    # Nobody is in the target class already: the mean is over all records.
    model = replace(tiny_model, calibration=Calibration(0.3, np.zeros(2)))
    records, target = loans_task.test.records, other_class(loans_task.test.labels, 2)
    dear, cheap = cost_at(model, loans_task, 0.005), cost_at(model, loans_task, 1.5)
    assert cheap < dear
    budget = (cheap + dear) / 2
    cost_weight = cost_weight_within(model, records, target, budget, seed=2)
    assert cost_at(model, loans_task, cost_weight) <= budget < cost_at(model, loans_task, cost_weight / 1.2)
    careful = cost_weight_within(model, records, target, budget, seed=2, standard_errors=1.0)
    found = explain(
        model, records, target, config=SearchConfig(cost_weight=careful, min_expected_agreement=0.0, seed=2)
    )
    costs = costs_of(found)
    assert careful > cost_weight and costs.mean() + costs.std() / len(costs) ** 0.5 <= budget


def test_a_sure_answer_is_not_made_dearer(loans_task: Task, tiny_model: RecourseModel) -> None:
    """A model that is sure of everything: the budget is not spent."""
    sure = replace(tiny_model, calibration=Calibration(0.0, np.array([8.0, 0.0])))
    records = loans_task.test.records
    target = np.zeros(len(records), dtype=np.int64)
    assert 1 / (1 + np.exp(-8.0)) > FrontierConfig().enough
    assert cost_weight_within(sure, records, target, 1e9, seed=2) == pytest.approx(6.0, rel=1e-6)
