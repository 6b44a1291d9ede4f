"""The pair of networks that stands for the black boxes."""

import pytest
import torch

from models.config import SurrogateConfig
from models.networks.surrogate import SurrogateOutput, SurrogatePair, target_log_probability

WIDTH, CLASSES, ROWS = 5, 4, 9


def make_pair(votes: bool = True, spectral: bool = False, heads: int = 1) -> SurrogatePair:
    torch.manual_seed(0)
    settings = SurrogateConfig(width=16, heads=heads, votes=votes, jury=False, spectral=spectral)
    return SurrogatePair(WIDTH, CLASSES, settings)


@pytest.mark.parametrize(("votes", "heads"), [(True, 1), (True, 3), (False, 3)])
def test_shapes(votes: bool, heads: int) -> None:
    for reading in make_pair(votes, heads=heads)(torch.randn(ROWS, WIDTH)):
        assert reading.logits.shape == (ROWS, CLASSES + 1)
        assert reading.log_class_share.shape == (ROWS, CLASSES)


@pytest.mark.parametrize("heads", [1, 3])
def test_with_votes_the_classes_share_everything(heads: int) -> None:
    for reading in make_pair(heads=heads)(torch.randn(ROWS, WIDTH)):
        torch.testing.assert_close(reading.log_class_share.exp().sum(dim=1), torch.ones(ROWS))


def test_the_share_of_an_old_model_is_the_mean_of_what_its_heads_say() -> None:
    """A head for each black box, as version 0.1 trained them; one head alone is the share."""
    said = torch.tensor([[0.2, 0.8, 0.6, 0.4], [1.0, 1e-9, 0.5, 0.5]]).log()
    reading = SurrogateOutput.of(torch.zeros(2, 3), said)
    torch.testing.assert_close(reading.log_class_share.exp(), torch.tensor([[0.4, 0.6], [0.75, 0.25]]))
    alone = SurrogateOutput.of(torch.zeros(2, 3), said[:, :2])
    torch.testing.assert_close(alone.log_class_share.exp(), torch.tensor([[0.2, 0.8], [1.0, 1e-9]]))


def test_without_votes_the_noise_class_keeps_its_part() -> None:
    for reading in make_pair(votes=False)(torch.randn(ROWS, WIDTH)):
        noise = torch.softmax(reading.logits, dim=1)[:, -1]
        torch.testing.assert_close(reading.log_class_share.exp().sum(dim=1) + noise, torch.ones(ROWS))


def test_the_two_networks_are_different() -> None:
    pair = make_pair()
    sizes = [sum(parameter.numel() for parameter in net.parameters()) for net in (pair.first, pair.second)]
    assert sizes[0] != sizes[1]


@pytest.mark.parametrize("spectral", [True, False])
@pytest.mark.parametrize("votes", [True, False])
def test_gradients_reach_every_parameter(votes: bool, spectral: bool) -> None:
    pair = make_pair(votes, spectral)
    outputs = pair(torch.randn(64, WIDTH))
    loss = sum(reading.logits[:, 0].square().sum() + reading.log_class_share[:, 0].sum() for reading in outputs)
    torch.autograd.backward(loss)
    for name, parameter in pair.named_parameters():
        assert parameter.grad is not None and bool((parameter.grad != 0).any()), name


def test_spectral_norm_bounds_every_layer_of_the_first_trunk() -> None:
    pair = make_pair(spectral=True)
    with torch.no_grad():
        for name, value in pair.first.state_dict().items():
            if name.endswith("original"):
                value.mul_(20.0)
        for _ in range(30):
            pair(torch.randn(ROWS, WIDTH))
    norms = [
        float(torch.linalg.matrix_norm(layer.weight.detach(), ord=2))
        for layer in pair.first.trunk.modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    assert norms == pytest.approx([1.0, 1.0, 1.0], abs=0.02)


def test_target_log_probability() -> None:
    first = SurrogateOutput(torch.zeros(2, 3), torch.tensor([[-1.0, -2.0], [-3.0, -4.0]]))
    second = SurrogateOutput(torch.zeros(2, 3), torch.tensor([[-5.0, -6.0], [-7.0, -8.0]]))
    assert target_log_probability((first, second), torch.tensor([1, 0])).tolist() == [[-2.0, -3.0], [-6.0, -7.0]]
