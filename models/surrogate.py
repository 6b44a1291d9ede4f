"""The surrogate f: a pair of networks that stands for the black boxes (paper, "NCE-based Conditional Density").

Each network gives K+1 logits, the noise class last. With `votes` it has a second head of K logits for the share of
black-box models that say each class: where labels are noisy, that share is far steeper than the chance of the label,
which the first head must keep for the density score to be right.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from models.config import NARROW, SurrogateConfig


@dataclass(frozen=True)
class Reading:
    """What one network says of B points: logits (B, K+1), noise last; log_valid (B, K), log of the class's chance."""

    logits: Tensor
    log_valid: Tensor


class SurrogateNet(nn.Module):
    """A trunk (D -> width) and its one or two heads."""

    def __init__(self, trunk: nn.Sequential, width: int, classes: int, votes: bool) -> None:
        super().__init__()
        self.trunk = trunk
        self.nce = nn.Linear(width, classes + 1)
        self.votes = nn.Linear(width, classes) if votes else None

    def forward(self, points: Tensor) -> Reading:
        """points (B, D) -> Reading"""
        hidden = self.trunk(points)
        logits = self.nce(hidden)
        if self.votes is None:
            return Reading(logits, torch.log_softmax(logits, dim=1)[:, :-1])
        return Reading(logits, torch.log_softmax(self.votes(hidden), dim=1))


class SurrogatePair(nn.Module):
    """Two networks that fail differently; the generator is trained against the worse of the two."""

    def __init__(self, width_in: int, classes: int, config: SurrogateConfig) -> None:
        super().__init__()
        width = config.width or NARROW
        self.first = SurrogateNet(_normed_trunk(width_in, width, config.spectral), width, classes, config.votes)
        self.second = SurrogateNet(_plain_trunk(width_in, width), width, classes, config.votes)

    def forward(self, points: Tensor) -> tuple[Reading, Reading]:
        """points (B, D) -> what each network says"""
        return self.first(points), self.second(points)


def _normed_trunk(width_in: int, width: int, spectral: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size in (width_in, width, width):
        linear = nn.Linear(size, width)
        layers += [parametrizations.spectral_norm(linear) if spectral else linear, nn.LayerNorm(width), nn.SiLU()]
    return nn.Sequential(*layers)


def _plain_trunk(width_in: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())


def target_log_probability(readings: tuple[Reading, Reading], target: Tensor) -> Tensor:
    """target (B,) -> (2, B): each network's log-probability of the target class"""
    return torch.stack([reading.log_valid.gather(1, target[:, None]).squeeze(1) for reading in readings])
