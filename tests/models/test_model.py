"""The trained model's dial."""

from dataclasses import replace

import numpy as np
import pytest

from models.model import FrontierPoint, RecourseModel


def test_the_price_of_a_cost_is_read_off_the_frontier(tiny_model: RecourseModel) -> None:
    frontier = (FrontierPoint(0.01, 3.0, 0.9), FrontierPoint(0.1, 2.0, 0.8), FrontierPoint(1.0, 1.0, 0.5))
    model = replace(tiny_model, frontier=frontier)
    assert model.price_for_cost(2.0) == pytest.approx(0.1)
    assert model.price_for_cost(1.5) == pytest.approx(np.sqrt(0.1))
    assert model.price_for_cost(99.0) == pytest.approx(0.01)
    assert model.price_for_cost(0.0) == pytest.approx(1.0)


def test_the_measured_frontier_gets_cheaper_as_the_price_rises(tiny_model: RecourseModel) -> None:
    prices = [point.price for point in tiny_model.frontier]
    costs = [point.cost for point in tiny_model.frontier]
    agreements = [point.agreement for point in tiny_model.frontier]
    assert prices == sorted(prices)
    assert costs[0] > costs[-1] and agreements[0] > agreements[-1]
    assert all(0 <= share <= 1 for share in agreements)
