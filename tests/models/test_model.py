"""The trained model's dial."""

from models.model import RecourseModel


def test_the_measured_frontier_gets_cheaper_as_the_price_rises(tiny_model: RecourseModel) -> None:
    cost_weights = [point.cost_weight for point in tiny_model.frontier]
    costs = [point.cost for point in tiny_model.frontier]
    agreements = [point.agreement for point in tiny_model.frontier]
    assert cost_weights == sorted(cost_weights)
    assert costs[0] > costs[-1] and agreements[0] > agreements[-1]
    assert all(0 <= share <= 1 for share in agreements)
