"""What the surrogate's networks see of a point: the point, and views of it in which a tree's cuts are easy to learn.

A number is also shown as how far it has passed through each of several bins; a category as a soft one-hot of the levels
of its circle. Both are differentiable, and exact at every decodable point. Black boxes are often trees or neighbour
votes, whose answers jump; a network on plain z-scores and circles smooths those jumps away.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from models.encoding import Encoder

BINS = 8
SHARPNESS = 6.0
"""How much the nearest level of a circle outweighs the next one, as an exponent."""


class Expansion(nn.Module):
    """points (B, D) -> (B, width); the bins' edges are fitted to the training points."""

    numeric: Tensor
    edges: Tensor
    circular: Tensor
    cosines: Tensor
    sines: Tensor
    sharpness: Tensor
    levels: Tensor

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        features = encoder.schema.features
        numeric = [encoder.columns[j].start for j, feature in enumerate(features) if not feature.is_categorical]
        circular = [j for j, feature in enumerate(features) if feature.is_categorical]
        counts = [len(features[j].categories) + features[j].nullable for j in circular]
        owner = np.repeat(np.arange(len(circular)), counts)
        angle = np.concatenate([2 * math.pi * np.arange(count) / count for count in counts] or [np.empty(0)])
        sharp = [SHARPNESS / (1 - math.cos(2 * math.pi / count)) for count in counts]
        self.register_buffer("numeric", torch.tensor(numeric, dtype=torch.long))
        self.register_buffer("edges", torch.zeros(len(numeric), BINS + 1))
        starts = torch.tensor([encoder.columns[j].start for j in circular], dtype=torch.long)
        self.register_buffer("circular", starts[torch.from_numpy(owner)] if len(circular) else starts)
        self.register_buffer("cosines", torch.from_numpy(np.cos(angle)).float())
        self.register_buffer("sines", torch.from_numpy(np.sin(angle)).float())
        self.register_buffer("sharpness", torch.tensor(sharp, dtype=torch.float32)[torch.from_numpy(owner)])
        self.register_buffer("levels", torch.from_numpy(owner.astype(np.int64)))
        self.width = encoder.width + len(numeric) * BINS + len(angle)

    @torch.no_grad()
    def fit(self, points: Tensor) -> None:
        """Set the edges to the quantiles of the distinct training values of each number.   points (n, D)"""
        for row, column in enumerate(self.numeric.tolist()):
            values = torch.unique(points[:, column].double())
            places = torch.linspace(0.0, 1.0, BINS + 1, dtype=torch.float64, device=points.device)
            if len(values) > BINS:
                self.edges[row] = torch.quantile(values, places).float()
            else:  # one edge a value, and beyond the last one edges that nothing reaches
                beyond = values[-1] + torch.arange(1, BINS + 2 - len(values), device=points.device)
                self.edges[row] = torch.cat([values, beyond]).float()

    def forward(self, points: Tensor) -> Tensor:
        """points (B, D) -> (B, width)"""
        views = [points]
        if len(self.numeric):
            numbers = points[:, self.numeric, None]
            low, high = self.edges[:, :-1], self.edges[:, 1:]
            views.append(((numbers - low) / (high - low)).clamp(0.0, 1.0).flatten(1))
        if len(self.circular):
            cosine, sine = points[:, self.circular], points[:, self.circular + 1]
            radius = torch.sqrt(cosine.square() + sine.square() + 1e-6)
            near = (cosine * self.cosines + sine * self.sines) / radius
            weight = torch.exp(self.sharpness * (near - 1.0))
            total = torch.zeros(len(points), int(self.levels[-1]) + 1, dtype=points.dtype, device=points.device)
            total = total.index_add(1, self.levels, weight)
            views.append(weight / (total[:, self.levels] + 1e-6))
        return torch.cat(views, dim=1)
