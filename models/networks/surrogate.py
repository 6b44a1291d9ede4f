"""The surrogate f: a pair of networks that stands for the black boxes (METHOD.md, section 2).

Paper, "NCE-based Conditional Density"; noise-contrastive estimation after Gutmann and Hyvarinen, 2010.

Each network gives K+1 logits, the noise class last. With `votes` it also has a head of K logits for the share of votes:
where labels are noisy, a vote is far steeper than the chance of the label, which the first head must keep for the
density score to be right.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from ..config import NARROW, SurrogateConfig


@dataclass(frozen=True)
class SurrogateOutput:
    """One network's output at B points: logits (B, K+1), noise last; log_class_share (B, K), the expected log share."""

    logits: Tensor
    log_class_share: Tensor

    @classmethod
    def of(cls, logits: Tensor, said: Tensor | None) -> "SurrogateOutput":
        """logits (B, K+1), said (B, H * K) by the head of the votes, if there is one

        Models trained by version 0.1 have H heads, one for each black box; the share is the mean over them.
        """
        if said is None:
            return cls(logits, torch.log_softmax(logits, dim=1)[:, :-1])
        each = torch.log_softmax(said.reshape(len(said), -1, logits.shape[1] - 1), dim=2)
        heads = each.shape[1]
        return cls(logits, each[:, 0] if heads == 1 else torch.logsumexp(each, dim=1) - math.log(heads))


class SurrogateNet(nn.Module):
    """A trunk (D -> width), the head of label and noise, and that of the votes."""

    def __init__(self, trunk: nn.Sequential, width: int, classes: int, heads: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.nce = nn.Linear(width, classes + 1)
        self.votes = nn.Linear(width, heads * classes) if heads else None

    def forward(self, points: Tensor) -> SurrogateOutput:
        """points (B, D) -> SurrogateOutput"""
        hidden = self.trunk(points)
        return SurrogateOutput.of(self.nce(hidden), None if self.votes is None else self.votes(hidden))


class SurrogatePair(nn.Module):
    """Two networks that fail differently; the generator is trained against the worse of the two."""

    def __init__(self, width_in: int, classes: int, config: SurrogateConfig) -> None:
        super().__init__()
        width, heads = config.width or NARROW, config.heads * config.votes
        self.first = SurrogateNet(_normed_trunk(width_in, width, config.spectral), width, classes, heads)
        self.second = SurrogateNet(_plain_trunk(width_in, width), width, classes, heads)

    def forward(self, points: Tensor) -> tuple[SurrogateOutput, SurrogateOutput]:
        """points (B, D) -> both networks' outputs"""
        return self.first(points), self.second(points)


def _normed_trunk(width_in: int, width: int, spectral: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size in (width_in, width, width):
        linear = nn.Linear(size, width)
        layers += [parametrizations.spectral_norm(linear) if spectral else linear, nn.LayerNorm(width), nn.SiLU()]
    return nn.Sequential(*layers)


def _plain_trunk(width_in: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())


def target_log_probability(outputs: tuple[SurrogateOutput, SurrogateOutput], target: Tensor) -> Tensor:
    """target (B,) -> (2, B): each network's log-probability of the target class"""
    return torch.stack([each.log_class_share.gather(1, target[:, None]).squeeze(1) for each in outputs])
