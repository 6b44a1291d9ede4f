"""What the surrogate learns: the classes, the density of each, and the votes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from models.config import NoiseConfig, SurrogateConfig
from models.networks.density import density_score, trust_threshold
from models.networks.surrogate import SurrogatePair
from models.training.pseudo_labels import QueriedLabels
from models.training.schedule import set_rate, silent
from models.training.surrogate_trainer import SurrogateTrainer, TrainingData
from tests.models.tiny import TINY

CENTRES = torch.tensor([[-1.0, 0.0], [1.0, 0.5]])
SPREAD = 0.5


def make_trainer(votes: bool, steps: int) -> SurrogateTrainer:
    """Two round clouds, 2,000 points."""
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(2000) % 2
    points = CENTRES[labels] + SPREAD * torch.randn(2000, 2, generator=random)
    settings = SurrogateConfig(width=32, votes=votes, jury=False, steps=steps, learning_rate=5e-3)
    torch.manual_seed(0)
    pair = SurrogatePair(2, 2, settings)
    config = replace(TINY, surrogate=settings, noise=NoiseConfig(ratio=0.2))
    return SurrogateTrainer(pair, TrainingData(points, labels, 4.0), config, random)


@pytest.fixture(scope="module")
def pretrained() -> SurrogateTrainer:
    trainer = make_trainer(votes=False, steps=400)
    trainer.pretrain(silent)
    trainer.pair.eval()
    return trainer


def test_the_score_is_the_log_density_of_the_class_up_to_a_constant(pretrained: SurrogateTrainer) -> None:
    """Paper, proposition on the density ratio: z_y - z_noise = log p(x | y) + const, for each class of its own."""
    for label in (0, 1):
        around = CENTRES[label] + SPREAD * torch.randn(500, 2, generator=torch.Generator().manual_seed(label))
        log_density = -(around - CENTRES[label]).square().sum(dim=1) / (2 * SPREAD**2)
        target = torch.full((500,), label)
        with torch.no_grad():
            outputs = pretrained.pair(around)
        for reading in outputs:
            score = density_score(reading.logits, target)
            slope, constant = np.polyfit(log_density.numpy(), score.numpy(), 1)
            assert slope == pytest.approx(1.0, abs=0.25)
            # p(y) p(x | y) / (tau q(x)) at the centre: 1/2, over a density of 1 / 8^2 for the noise.
            expected = np.log(0.5 / (2 * np.pi * SPREAD**2) / (0.2 / 64))
            assert constant == pytest.approx(expected, abs=0.7)


def test_the_trust_region_holds_the_data_and_not_the_void(pretrained: SurrogateTrainer) -> None:
    void = torch.tensor([[-3.5, 3.5], [3.5, -3.5], [-3.5, -3.5], [3.5, 3.5]])
    threshold = trust_threshold(NoiseConfig(ratio=0.2))
    with torch.no_grad():
        inside = (
            density_score(pretrained.pair.first(pretrained.data.points).logits, pretrained.data.labels) >= threshold
        )
        outside = density_score(pretrained.pair.first(void).logits, torch.zeros(4, dtype=torch.long)) >= threshold
    assert float(inside.float().mean()) > 0.95
    assert not bool(outside.any())


@pytest.mark.parametrize("votes", [True, False])
def test_queried_labels_are_believed_where_they_were_queried(votes: bool) -> None:
    """Below the first cloud the black boxes say the second class; the labels say nothing of it."""
    trainer = make_trainer(votes, steps=50)
    trainer.pretrain(silent)
    points = torch.tensor([-1.0, -2.5]) + 0.2 * torch.randn(100, 2, generator=torch.Generator().manual_seed(1))
    says = torch.tensor([[0.1, 0.9]]).expand(100, 2)
    trainer.queried = QueriedLabels(points, torch.ones(100, dtype=torch.long), says, says)

    def believed() -> list[float]:
        with torch.no_grad():
            return [float(reading.log_class_share.exp()[:, 1].mean()) for reading in trainer.pair(points)]

    before = believed()
    set_rate(trainer.optimizer, 5e-3)
    for _ in range(80):
        trainer.step()
    assert min(before) < 0.7
    assert believed() == pytest.approx([0.9, 0.9], abs=0.15)


def test_a_vote_head_without_pseudo_labels_learns_the_labels() -> None:
    trainer = make_trainer(votes=True, steps=120)
    trainer.pretrain(silent)
    trainer.pair.eval()
    with torch.no_grad():
        outputs = trainer.pair(trainer.data.points)
    for reading in outputs:
        right = reading.log_class_share.argmax(dim=1) == trainer.data.labels
        assert float(right.float().mean()) > 0.95
