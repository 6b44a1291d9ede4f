"""The scale of the expected agreement."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from models.config import SurrogateConfig
from models.networks.surrogate import SurrogatePair
from models.training.pseudo_labels import QueriedLabels
from models.training.surrogate_trainer import fit_calibration

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pair() -> SurrogatePair:
    torch.manual_seed(0)
    pair = SurrogatePair(3, 3, SurrogateConfig(width=16)).eval()
    with torch.no_grad():
        for net in (pair.first, pair.second):
            assert net.votes is not None
            net.votes.weight.mul_(6.0)
    return pair


def queried_at(pair: SurrogatePair, slope: float, bias: list[float]) -> QueriedLabels:
    """Answers for which that slope and bias are exact."""
    points = 2 * torch.randn(2000, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        first, second = pair(points)
    shares = torch.softmax(slope * (first.log_class_share + second.log_class_share) / 2 + torch.tensor(bias), dim=1)
    return QueriedLabels(points, torch.zeros(2000, dtype=torch.long), shares, shares)


def test_it_finds_the_slope_and_the_bias(pair: SurrogatePair) -> None:
    fitted = fit_calibration(pair, queried_at(pair, 2.0, [0.5, -0.5, 0.0]), 3)
    assert fitted.slope == pytest.approx(2.0, rel=0.2)
    np.testing.assert_allclose(fitted.bias, [0.5, -0.5, 0.0], atol=0.15)
    same = fit_calibration(pair, queried_at(pair, 1.0, [0.0, 0.0, 0.0]), 3)
    assert same.slope == pytest.approx(1.0, abs=0.01)
    np.testing.assert_allclose(same.bias, 0.0, atol=0.01)


def test_few_answers_say_little_and_none_say_nothing(pair: SurrogatePair) -> None:
    nothing = fit_calibration(pair, QueriedLabels.empty(3, 3, CPU), 3)
    assert nothing.slope == 1.0 and nothing.bias.tolist() == [0.0, 0.0, 0.0]
    one_sided = QueriedLabels(*(part[:4] for part in queried_at(pair, 1.0, [0.0, 0.0, 0.0]).parts))
    sure = torch.tensor([[1.0, 0.0, 0.0]]).expand(4, 3)
    fitted = fit_calibration(pair, replace(one_sided, shares=sure), 3)
    assert np.isfinite(fitted.slope) and np.abs(fitted.bias).max() < 10.0
