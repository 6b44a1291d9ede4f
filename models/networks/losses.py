"""The composite loss of the generator (paper, equation objective; METHOD.md, section 3) and those of the surrogate."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ..config import LossConfig
from .density import Score
from .ode import Path
from .surrogate import SurrogatePair, target_log_probability
from .velocity import Request


@dataclass(frozen=True)
class GeneratorLoss:
    """The three terms before their weights, and the weighted sum; each (B,)."""

    valid: Tensor
    cost: Tensor
    density: Tensor
    total: Tensor


def generator_loss(
    pair: SurrogatePair,
    request: Request,
    path: Path,
    landed: Tensor,
    score: Score,
    threshold: float,
    config: LossConfig,
) -> GeneratorLoss:
    """landed (B, D) is the end of the path as a model will see it; threshold is log tau"""
    outputs = pair(landed)
    valid = -target_log_probability(outputs, request.target).amin(dim=0)
    moved = (landed - request.point).square().sum(dim=1)
    cost = (path.energy + moved) / 2
    shortfall = torch.relu(threshold - score(landed, request.target, outputs))
    if config.path:
        shortfall = _path_shortfall(pair, request, path, score, threshold)
    total = config.valid * valid + request.log_cost.exp() * cost + config.density * shortfall
    return GeneratorLoss(valid, cost, shortfall, total)


def _path_shortfall(pair: SurrogatePair, request: Request, path: Path, score: Score, threshold: float) -> Tensor:
    """The same penalty integrated over the path by the trapezoid rule -> (B,)"""
    times, batch, width = path.states.shape
    states = path.states.reshape(-1, width)
    target = request.target.repeat(times)
    missing = torch.relu(threshold - score(states, target, pair(states))).reshape(times, batch)
    return torch.trapezoid(missing, dx=1.0 / (times - 1), dim=0)


def nce_loss(logits: Tensor, labels: Tensor, noise_logits: Tensor, ratio: float, weight: float) -> Tensor:
    """Cross-entropy over K classes and noise.   logits (B, K+1), labels (B,), noise_logits (M, K+1) -> ()

    The noise batch stands for `ratio` noise points a data point, whatever its own size.
    """
    noise = torch.full((len(noise_logits),), noise_logits.shape[1] - 1, device=noise_logits.device)
    return functional.cross_entropy(logits, labels) + weight * ratio * functional.cross_entropy(noise_logits, noise)


def vote_loss(log_class_share: Tensor, shares: Tensor) -> Tensor:
    """Cross-entropy to the shares of votes, the mean over points.   log_class_share, shares (B, K) -> ()"""
    return -(shares * log_class_share).sum(dim=1).mean()


def distillation_loss(log_class_share: Tensor, target: Tensor, mean: Tensor) -> Tensor:
    """The paper's: squared error of the target's probability.   log_valid, mean (B, K), target (B,) -> ()"""
    chosen = target[:, None]
    return (log_class_share.gather(1, chosen).exp() - mean.gather(1, chosen)).square().mean()
