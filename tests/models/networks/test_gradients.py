"""The slope by hand is the slope of automatic differentiation, for every kind of surrogate."""

import numpy as np
import pytest
import torch
from torch import nn

from models.config import Config, SurrogateConfig, paper
from models.networks.gradients import forward_with_pullback
from models.search.scoring import score_points, score_with_gradients, target_logit
from tests.models.tiny import TINY, Task, random_model

WIDE = Config(surrogate=SurrogateConfig(width=128))
HEADS = Config(surrogate=SurrogateConfig(width=32, heads=5))


@pytest.mark.parametrize("config", [TINY, WIDE, HEADS, paper()], ids=["narrow", "wide", "heads", "paper"])
def test_same_gradient_and_same_bits_of_the_scores(blobs_task: Task, config: Config) -> None:
    model = random_model(blobs_task.encoder, config)
    random = np.random.default_rng(0)
    points, target = random.normal(size=(90, model.encoder.width)), random.integers(4, size=90)
    scores, slopes = score_with_gradients(model, points, target)
    plain = score_points(model, points, target)
    np.testing.assert_array_equal(scores.agreement, plain.agreement)
    np.testing.assert_array_equal(scores.density, plain.density)
    x = torch.from_numpy(points.astype(np.float32)).requires_grad_(True)
    logit = target_logit(model, model.pair(x), torch.from_numpy(target))
    (gradient,) = torch.autograd.grad(logit.sum(), x)
    np.testing.assert_allclose(slopes.logit, logit.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(slopes.gradient, gradient.numpy(), atol=1e-5, rtol=1e-4)
    assert np.abs(slopes.gradient).max() > 0.05


def test_a_layer_without_a_known_slope_is_named(blobs_task: Task) -> None:
    pair = random_model(blobs_task.encoder, TINY).pair
    pair.first.trunk = nn.Sequential(nn.Linear(2, 16), nn.Tanh())
    with pytest.raises(TypeError, match="Tanh"):
        forward_with_pullback(pair, torch.zeros(3, 2))
