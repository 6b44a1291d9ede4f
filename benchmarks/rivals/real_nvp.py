"""A RealNVP normalizing flow (Dinh et al., 2017): affine couplings that are exact both ways."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from models.arrays import Encoded


@dataclass(frozen=True, slots=True)
class FlowTraining:
    """The couplings and their training. `jitter` spreads the points of categories, which alone have no density."""

    couplings: int = 6
    width: int = 64
    steps: int = 1500
    batch: int = 256
    learning_rate: float = 1e-3
    jitter: float = 0.05


class Coupling(nn.Module):
    """Half of the columns, those of mask (D,), decide how the others are stretched and shifted."""

    mask: Tensor

    def __init__(self, mask: Tensor, width: int) -> None:
        super().__init__()
        size = len(mask)
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(
            nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * size)
        )

    def _terms(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        """The log-stretch and the shift of the other columns, each (B, D), zero at the kept ones"""
        stretch, shift = self.net(kept).chunk(2, dim=1)
        return 2.0 * torch.tanh(stretch / 2.0) * (1 - self.mask), shift * (1 - self.mask)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, D) -> (B, D), the log of the volume's change (B,)"""
        stretch, shift = self._terms(x * self.mask)
        return x * stretch.exp() + shift, stretch.sum(dim=1)

    def inverse(self, z: Tensor) -> Tensor:
        stretch, shift = self._terms(z * self.mask)
        back: Tensor = (z - shift) * (-stretch).exp()
        return back


class RealNvp(nn.Module):
    """Couplings over alternating halves; a single column is coupled with nothing, so it is only stretched."""

    def __init__(self, width_in: int, config: FlowTraining) -> None:
        super().__init__()
        half = (torch.arange(width_in) % 2).float()
        masks = [half if position % 2 else 1 - half for position in range(config.couplings)]
        self.couplings = nn.ModuleList([Coupling(mask, config.width) for mask in masks])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, D) -> latent (B, D), log-determinant (B,)"""
        total = x.new_zeros(len(x))
        for coupling in self.couplings:
            x, change = coupling(x)
            total = total + change
        return x, total

    def inverse(self, z: Tensor) -> Tensor:
        """latent (B, D) -> x (B, D)"""
        for coupling in reversed(self.couplings):
            assert isinstance(coupling, Coupling)
            z = coupling.inverse(z)
        return z

    def log_density(self, x: Tensor) -> Tensor:
        """x (B, D) -> (B,)"""
        z, change = self(x)
        density: Tensor = change - 0.5 * (z.square() + math.log(2 * math.pi)).sum(dim=1)
        return density


def train_flow(points: Encoded, config: FlowTraining, seed: int) -> RealNvp:
    """points (n, D) -> a flow that maps them to a standard normal, frozen"""
    random = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        flow = RealNvp(points.shape[1], config)
    data = torch.from_numpy(points.astype(np.float32))
    optimizer = torch.optim.AdamW(flow.parameters(), lr=config.learning_rate)
    for _ in range(config.steps):
        rows = torch.randint(len(data), (min(config.batch, len(data)),), generator=random)
        batch = data[rows] + config.jitter * torch.randn(len(rows), data.shape[1], generator=random)
        loss = -flow.log_density(batch).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        optimizer.step()
    flow.requires_grad_(False)
    return flow.eval()
