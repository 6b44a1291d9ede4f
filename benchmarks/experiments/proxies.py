"""Scores that may stand in for the density in the generator's loss, to be compared with the method's own.

Paper, appendix "Plug-in Density Proxies". Importing this module makes `LossConfig(proxy=...)` know them.
"""

import torch
from torch import Tensor, nn

from models.config import NoiseConfig
from models.networks.density import PROXIES, Score, draw_noise
from models.networks.surrogate import SurrogateOutput

NEIGHBORS = 20
REFERENCES = 2000


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


def _references(points: Tensor, random: torch.Generator) -> Tensor:
    """Some of points (n, D) -> (R, D)"""
    return points[torch.randperm(len(points), generator=random, device=points.device)[:REFERENCES]]


def _nearest(distances: Tensor, neighbours: int) -> tuple[Tensor, Tensor]:
    """distances (B, R) to the references -> distances and indices (B, neighbours) of the nearest ones"""
    found = distances.topk(neighbours, dim=1, largest=False)
    return found.values, found.indices


def _neighbours(points: Tensor, bound: float, noise: NoiseConfig, random: torch.Generator) -> Score:
    """Minus the mean distance to the k nearest of some training points (R, D)."""
    references = _references(points, random)
    count = min(NEIGHBORS, len(references))
    return lambda points, target, outputs: -_nearest(torch.cdist(points, references), count)[0].mean(dim=1)


def _outlier_factor(points: Tensor, bound: float, noise: NoiseConfig, random: torch.Generator) -> Score:
    """Minus the local outlier factor against some training points (R, D), none of which is its own neighbour."""
    references = _references(points, random)
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


PROXIES |= {"disc2": _discriminator, "knn": _neighbours, "lof": _outlier_factor}
