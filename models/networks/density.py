"""The noise reference and the density score (METHOD.md, section 2; paper, Proposition "Relation to Density Ratio").

Other scores may stand in for it in the generator's loss (paper, appendix "Plug-in Density Proxies"). Each is a function
of points (B, D), target (B,) and the surrogate's outputs that returns a score (B,), higher where the data are denser.
`nce` is the method's own; those that are there to be compared with it stand in benchmarks/experiments/proxies.py.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from ..config import NoiseConfig
from ..errors import ConfigError
from .surrogate import SurrogateOutput


def density_score(logits: Tensor, target: Tensor) -> Tensor:
    """S(x | y*) = z_target - z_noise.   logits (B, K+1), noise last; target (B,); returns (B,)"""
    return logits.gather(1, target[:, None]).squeeze(1) - logits[:, -1]


def pair_density(outputs: tuple[SurrogateOutput, SurrogateOutput], target: Tensor) -> Tensor:
    """The lower of the two networks' scores (B,)"""
    first, second = outputs
    return torch.minimum(density_score(first.logits, target), density_score(second.logits, target))


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


Score: TypeAlias = Callable[[Tensor, Tensor, tuple[SurrogateOutput, SurrogateOutput]], Tensor]
MakeScore: TypeAlias = Callable[[Tensor, float, NoiseConfig, torch.Generator], Score]
"""(training points (n, D), the noise bound, the noise's settings, random) -> the score, fitted to the points"""


PROXIES: dict[str, MakeScore] = {
    "nce": lambda *_: lambda points, target, outputs: pair_density(outputs, target),
    "none": lambda *_: lambda points, target, outputs: points.new_full((len(points),), torch.inf),
}
"""The density scores by the name in `LossConfig.proxy`; a new one is added here."""


def make_proxy(name: str, points: Tensor, bound: float, noise: NoiseConfig, random: torch.Generator) -> Score:
    """The score `name`, fitted to the training points (n, D) where it needs them."""
    if name not in PROXIES:
        raise ConfigError(f"There is no density proxy '{name}'; choose from {', '.join(PROXIES)}.")
    return PROXIES[name](points, bound, noise, random)
