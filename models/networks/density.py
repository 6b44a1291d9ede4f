"""The noise reference and the density score (METHOD.md, section 2; paper, Proposition "Relation to Density Ratio").

What may stand in for the density score in the generator's loss (paper, appendix "Plug-in Density Proxies").

Each is a function of points (B, D), target (B,) and the surrogate's outputs that returns a score (B,), higher where
the data are denser. `nce` is the method's own; the others are there to be compared with it.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from ..config import DensityProxy, NoiseConfig
from ..errors import ConfigError
from .surrogate import SurrogateOutput


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


Score: TypeAlias = Callable[[Tensor, Tensor, tuple[SurrogateOutput, SurrogateOutput]], Tensor]
NEIGHBORS = 20
REFERENCES = 2000


def make_proxy(name: DensityProxy, points: Tensor, bound: float, noise: NoiseConfig, random: torch.Generator) -> Score:
    """The score `name`, fitted to the training points (n, D) where it needs them."""
    if name == "nce":
        return _nce
    if name == "none":
        return lambda points, target, outputs: points.new_full((len(points),), torch.inf)
    if name == "disc2":
        return _discriminator(points, bound, noise, random)
    chosen = torch.randperm(len(points), generator=random, device=points.device)[:REFERENCES]
    if name == "knn":
        return _neighbours(points[chosen])
    if name == "lof":
        return _outlier_factor(points[chosen])
    raise ConfigError(f"There is no density proxy '{name}'; choose from nce, none, disc2, knn, lof.")


def _nce(points: Tensor, target: Tensor, outputs: tuple[SurrogateOutput, SurrogateOutput]) -> Tensor:
    """The lower of the two networks' scores."""
    first, second = outputs
    return torch.minimum(density_score(first.logits, target), density_score(second.logits, target))


def _discriminator(points: Tensor, bound: float, noise: NoiseConfig, random: torch.Generator) -> Score:
    """The logit of a small network that tells training points from noise."""
    width = points.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(random.initial_seed())
        net = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    net.to(points.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4, fused=True)
    for _ in range(500):
        real = points[torch.randint(len(points), (256,), generator=random, device=points.device)]
        fake = draw_noise(max(1, round(256 * noise.ratio)), width, bound, random)
        loss = nn.functional.softplus(-net(real)).mean() + noise.ratio * nn.functional.softplus(net(fake)).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    net.requires_grad_(False)
    return lambda points, target, outputs: net(points).squeeze(1)


def _nearest(distances: Tensor, neighbours: int) -> tuple[Tensor, Tensor]:
    """distances (B, R) to the references -> distances and indices (B, neighbours) of the nearest ones"""
    found = distances.topk(neighbours, dim=1, largest=False)
    return found.values, found.indices


def _neighbours(references: Tensor) -> Score:
    """Minus the mean distance to the k nearest training points (R, D)."""
    count = min(NEIGHBORS, len(references))
    return lambda points, target, outputs: -_nearest(torch.cdist(points, references), count)[0].mean(dim=1)


def _outlier_factor(references: Tensor) -> Score:
    """Minus the local outlier factor against the training points (R, D), none of which is its own neighbour."""
    count = min(NEIGHBORS, len(references) - 1)
    distances, neighbours = _nearest(torch.cdist(references, references).fill_diagonal_(torch.inf), count)
    radius = distances[:, -1]
    reach = torch.maximum(distances, radius[neighbours])
    density = 1.0 / reach.mean(dim=1).clamp_min(1e-6)

    def score(points: Tensor, target: Tensor, outputs: tuple[SurrogateOutput, SurrogateOutput]) -> Tensor:
        distances, neighbours = _nearest(torch.cdist(points, references), count)
        own = 1.0 / torch.maximum(distances, radius[neighbours]).mean(dim=1).clamp_min(1e-6)
        return -density[neighbours].mean(dim=1) / own

    return score
