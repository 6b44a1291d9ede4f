"""The noise reference and the density score (paper, Proposition "Relation to Density Ratio")."""

import math

import torch
from torch import Tensor

from models.config import NoiseConfig


def density_score(logits: Tensor, target: Tensor) -> Tensor:
    """S(x | y*) = z_target - z_noise.   logits (B, K+1), noise last; target (B,); returns (B,)"""
    return logits.gather(1, target[:, None]).squeeze(1) - logits[:, -1]


def trust_threshold(config: NoiseConfig) -> float:
    """A point lies in the trust region of y* where S(x | y*) is at least this: log tau."""
    return math.log(config.ratio)


def noise_bound(points: Tensor, config: NoiseConfig) -> float:
    """C = max(2, beta * max|x|) over the training points (n, D), unless the configuration fixes it"""
    if config.bound is not None:
        return config.bound
    return max(2.0, config.beta * float(points.abs().max()))


def draw_noise(count: int, width: int, bound: float, generator: torch.Generator) -> Tensor:
    """(count, width) points, uniform on [-bound, bound]"""
    return (torch.rand(count, width, generator=generator, device=generator.device) * 2.0 - 1.0) * bound
