"""The losses of the generator and of the surrogate."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models.config import LossConfig, NoiseConfig, SurrogateConfig
from models.networks.density import density_score, make_proxy
from models.networks.losses import distillation_loss, generator_loss, nce_loss, vote_loss
from models.networks.ode import Path
from models.networks.surrogate import SurrogatePair
from tests.models.tiny import random_request

ROWS, WIDTH, CLASSES = 6, 3, 3
REQUEST = random_request(ROWS, WIDTH, CLASSES)
THRESHOLD = 4.0
"""Above every score of an untrained network, so that the penalty is at work."""


@pytest.fixture(scope="module")
def pair() -> SurrogatePair:
    torch.manual_seed(0)
    return SurrogatePair(WIDTH, CLASSES, SurrogateConfig(width=16))


def nce_score(pair: SurrogatePair, points: Tensor) -> Tensor:
    first, second = pair(points)
    return torch.minimum(density_score(first.logits, REQUEST.target), density_score(second.logits, REQUEST.target))


def path_to(end: Tensor) -> Path:
    """A path of three states that starts at the request's points."""
    states = torch.stack([REQUEST.point, (REQUEST.point + end) / 2, end])
    return Path(end, (end - REQUEST.point).square().sum(dim=1), states, 2)


def test_the_three_terms_and_their_sum(pair: SurrogatePair) -> None:
    landed = REQUEST.point + 0.5
    config = LossConfig(valid=0.7, density=0.3)
    score = make_proxy("nce", landed, 2.0, NoiseConfig(), torch.Generator())
    energy = torch.arange(1.0, ROWS + 1)
    path = replace(path_to(landed), energy=energy)
    loss = generator_loss(pair, REQUEST, path, landed, score, THRESHOLD, config)
    first, second = pair(landed)
    each = [-reading.log_class_share[torch.arange(ROWS), REQUEST.target] for reading in (first, second)]
    torch.testing.assert_close(loss.valid, torch.maximum(*each))
    torch.testing.assert_close(loss.cost, (energy + WIDTH * 0.25) / 2)
    torch.testing.assert_close(loss.density, THRESHOLD - nce_score(pair, landed))
    weighted = 0.7 * loss.valid + REQUEST.log_cost.exp() * loss.cost + 0.3 * loss.density
    torch.testing.assert_close(loss.total, weighted)


def test_no_penalty_in_the_trust_region(pair: SurrogatePair) -> None:
    score = make_proxy("nce", REQUEST.point, 2.0, NoiseConfig(), torch.Generator())
    loss = generator_loss(pair, REQUEST, path_to(REQUEST.point), REQUEST.point, score, -50.0, LossConfig())
    assert not loss.density.any()
    assert not loss.cost.any()


def test_the_path_penalty_is_the_trapezoid_of_its_states(pair: SurrogatePair) -> None:
    landed = REQUEST.point + 0.5
    score = make_proxy("nce", landed, 2.0, NoiseConfig(), torch.Generator())
    config = LossConfig(path=True)
    loss = generator_loss(pair, REQUEST, path_to(landed), landed, score, THRESHOLD, config)
    start, middle, end = (THRESHOLD - nce_score(pair, state) for state in path_to(landed).states)
    torch.testing.assert_close(loss.density, start / 4 + middle / 2 + end / 4)
    still = generator_loss(pair, REQUEST, path_to(REQUEST.point), REQUEST.point, score, THRESHOLD, config)
    torch.testing.assert_close(still.density, THRESHOLD - nce_score(pair, REQUEST.point))


def test_without_a_density_signal_nothing_is_added_and_gradients_stay_finite(pair: SurrogatePair) -> None:
    landed = (REQUEST.point + 0.5).requires_grad_(True)
    score = make_proxy("none", REQUEST.point, 2.0, NoiseConfig(), torch.Generator())
    loss = generator_loss(pair, REQUEST, path_to(landed), landed, score, THRESHOLD, LossConfig())
    assert not loss.density.any()
    (gradient,) = torch.autograd.grad(loss.total.sum(), landed)
    assert bool(gradient.isfinite().all()) and bool(gradient.any())


@pytest.mark.parametrize("classes", [2, 5])
def test_nce_of_a_network_that_knows_nothing(classes: int) -> None:
    logits, noise = torch.zeros(8, classes + 1), torch.zeros(3, classes + 1)
    loss = nce_loss(logits, torch.arange(8) % classes, noise, 0.2, 0.5)
    assert float(loss) == pytest.approx((1 + 0.2 * 0.5) * math.log(classes + 1))


def test_nce_knows_its_classes_and_that_noise_is_the_last() -> None:
    sure = 50.0 * torch.eye(4)
    assert float(nce_loss(sure[:3], torch.arange(3), sure[3:], 0.2, 1.0)) == pytest.approx(0.0, abs=1e-6)
    assert float(nce_loss(sure[:3], torch.arange(3), sure[2:3], 0.2, 1.0)) == pytest.approx(0.2 * 50.0)
    assert float(nce_loss(sure[:3], torch.tensor([0, 1, 1]), sure[3:], 0.2, 1.0)) == pytest.approx(50.0 / 3)


@given(seed=st.integers(0, 1000), rows=st.integers(1, 5), classes=st.integers(2, 5))
def test_vote_loss_is_least_where_the_shares_are_met(seed: int, rows: int, classes: int) -> None:
    random = torch.Generator().manual_seed(seed)
    shares = torch.softmax(torch.randn(rows, classes, generator=random), dim=1)
    other = torch.log_softmax(torch.randn(rows, classes, generator=random), dim=1)
    least = vote_loss(shares.log(), shares)
    assert float(least) == pytest.approx(float(-(shares * shares.log()).sum() / rows), rel=1e-4)
    assert float(least) <= float(vote_loss(other, shares)) + 1e-6


def test_a_share_that_nobody_has_costs_nothing() -> None:
    said = torch.tensor([[0.5, 0.5], [0.2, 0.8]]).log()
    shares = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    assert float(vote_loss(said, shares)) == pytest.approx(-math.log(0.5 * 0.2**0.25 * 0.8**0.75) / 2)


def test_distillation_loss_looks_at_the_target_alone() -> None:
    log_class_share = torch.tensor([[0.2, 0.8], [0.5, 0.5]]).log()
    mean = torch.tensor([[0.9, 0.1], [0.3, 0.7]])
    loss = distillation_loss(log_class_share, torch.tensor([1, 0]), mean)
    assert float(loss) == pytest.approx((0.7**2 + 0.2**2) / 2)
