"""Decoding as tensor arithmetic, in single precision: for the training.

Models see only records that somebody could hold, so the generator is trained on where its path lands after decoding,
with a straight-through gradient. What a search reports is decoded with the encoder, exactly.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .codings import Circles, Lines, Simplices
from .encoding import Encoder


class Snapper:
    """Moves points to the nearest decodable ones: numbers to their grid, categories to the point of one of them.

    categories  the columns of each categorical feature, which move together
    """

    def __init__(self, encoder: Encoder, device: torch.device) -> None:
        features, owner = encoder.schema.features, encoder.feature_of_column
        self.device = device
        self.categories = [encoder.columns[j] for j, feature in enumerate(features) if feature.is_categorical]

        # A number in steps of its grid is point * size + zero; what this makes of the categories is overwritten.
        step = np.array([1.0 if feature.is_categorical else feature.step for feature in features])
        lower = np.array([0.0 if feature.is_categorical else feature.lower for feature in features])
        upper = np.array([0.0 if feature.is_categorical else feature.upper for feature in features])
        size, zero = (encoder.scale / step)[owner], (encoder.mean / step)[owner]
        first, last = (lower / step)[owner], (upper / step)[owner]
        self._circles: list[tuple[Tensor, Tensor, Tensor]] = []
        self._simplices: list[tuple[Tensor, Tensor, float]] = []
        for block in encoder.blocks:
            coding, columns = block.coding, torch.from_numpy(block.columns).to(device)
            if isinstance(coding, Lines):
                # A category of a line is its rank; the column of a missing value stays 0.
                along = block.columns[:, 0]
                size[along], zero[along] = 1 / coding.spacing, (coding.categories - 1) / 2
                last[along] = coding.categories - 1
            elif isinstance(coding, Circles):
                counts = coding.categories.astype(np.float64), coding.counts.astype(np.float64)
                self._circles.append((columns[:, 0], self._tensor(counts[0]), self._tensor(counts[1])))
            elif isinstance(coding, Simplices):
                absent = np.arange(coding.width) == coding.categories[:, None]
                self._simplices.append((columns, torch.from_numpy(absent).to(device), coding.radius))
        self.size, self.zero, self.lower, self.upper = (self._tensor(part) for part in (size, zero, first, last))

    def _tensor(self, values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(self.device)

    def snap(self, points: Tensor) -> Tensor:
        """points (B, D) -> the nearest decodable points (B, D); never a missing level"""
        steps = torch.addcmul(self.zero, points, self.size)
        steps = torch.minimum(torch.maximum(steps, self.lower), self.upper)
        snapped = (torch.round(steps) - self.zero) / self.size
        for columns, categories, levels in self._circles:
            angle = torch.atan2(points[:, columns + 1], points[:, columns])
            width = 2 * math.pi / levels
            turn = torch.remainder(angle, 2 * math.pi) / width
            level = torch.remainder(torch.round(turn), levels)
            beside = torch.where(turn < level, level - 1, torch.zeros_like(level))
            level = torch.where(level >= categories, beside, level)
            snapped[:, columns] = torch.cos(level * width)
            snapped[:, columns + 1] = torch.sin(level * width)
        for columns, absent, radius in self._simplices:
            level = points[:, columns].masked_fill(absent, -math.inf).argmax(dim=2, keepdim=True)
            vertex = points.new_zeros(len(points), *columns.shape)
            snapped[:, columns] = vertex.scatter_(2, level, radius)
        return snapped

    def through(self, points: Tensor) -> Tensor:
        """As `snap`, with the gradient of the identity."""
        return points + (self.snap(points) - points).detach()
