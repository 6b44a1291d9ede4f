"""The noise class and the density score."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from models.config import NoiseConfig
from models.networks.density import density_score, draw_noise, noise_bound, trust_threshold


def test_known_score() -> None:
    logits = torch.tensor([[1.0, 2.0, 5.0], [4.0, 0.0, -1.0]])
    score = density_score(logits, torch.tensor([1, 0]))
    assert score.tolist() == [-3.0, 5.0]


@given(classes=st.integers(2, 7), rows=st.integers(1, 5), shift=st.floats(-20, 20), seed=st.integers(0, 1000))
def test_a_constant_on_all_logits_changes_nothing(classes: int, rows: int, shift: float, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, classes + 1, generator=random, dtype=torch.float64)
    target = torch.randint(classes, (rows,), generator=random)
    score = density_score(logits, target)
    assert score.shape == (rows,)
    torch.testing.assert_close(density_score(logits + shift, target), score)
    more_noise = logits.clone()
    more_noise[:, -1] += 1.0
    torch.testing.assert_close(density_score(more_noise, target), score - 1.0)


def test_the_score_of_the_optimal_classifier_is_the_log_density_up_to_a_constant() -> None:
    """Paper, equation density_score: z_y = log p(y) p(x | y), z_noise = log tau q(x), with q uniform."""
    x = torch.linspace(-3, 3, 50, dtype=torch.float64)
    log_density = torch.stack([-((x - centre) ** 2) for centre in (-1.0, 1.0)], dim=1)
    logits = torch.cat([log_density + math.log(0.5), torch.full((50, 1), math.log(0.2 / 6))], dim=1)
    for target in (0, 1):
        gap = density_score(logits, torch.full((50,), target)) - log_density[:, target]
        torch.testing.assert_close(gap, gap[:1].expand(50))


def test_the_trust_region_starts_at_log_tau() -> None:
    assert trust_threshold(NoiseConfig(ratio=0.2)) == math.log(0.2)


def test_the_noise_covers_the_data() -> None:
    points = torch.tensor([[0.5, -3.0], [1.0, 2.0]])
    assert noise_bound(points, NoiseConfig(beta=1.2)) == 1.2 * 3.0
    assert noise_bound(points / 10, NoiseConfig(beta=1.2)) == 2.0
    assert noise_bound(points, NoiseConfig(bound=0.7)) == 0.7


def test_noise_is_uniform_in_its_cube_and_follows_the_generator() -> None:
    noise = draw_noise(4000, 3, 2.5, torch.Generator().manual_seed(1))
    assert noise.shape == (4000, 3)
    assert -2.5 <= float(noise.min()) < -2.4 and 2.4 < float(noise.max()) <= 2.5
    torch.testing.assert_close(noise.var(dim=0), torch.full((3,), 2.5**2 / 3), rtol=0.1, atol=0.0)
    assert torch.equal(noise, draw_noise(4000, 3, 2.5, torch.Generator().manual_seed(1)))
    assert not torch.equal(noise, draw_noise(4000, 3, 2.5, torch.Generator().manual_seed(2)))
