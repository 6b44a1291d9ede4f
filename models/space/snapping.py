"""Decoding as tensor arithmetic, in single precision: for the training.

Models see only records that somebody could hold, so the generator is trained on where its path lands after decoding,
with a straight-through gradient. What a search reports is decoded with the encoder, exactly.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .encoding import Encoder


class Snapper:
    """Moves points to the nearest decodable ones: numbers to their grid, pairs of columns to the points of a circle."""

    def __init__(self, encoder: Encoder, device: torch.device) -> None:
        features, owner = encoder.schema.features, encoder.feature_of_column
        circular = [j for j, feature in enumerate(features) if feature.is_categorical]

        def tensor(values: NDArray[np.float64]) -> Tensor:
            return torch.from_numpy(values.astype(np.float32)).to(device)

        # A number in steps of its grid is point * size + zero; what this makes of the circles is overwritten.
        step = np.array([1.0 if feature.is_categorical else feature.step for feature in features])
        lower = np.array([0.0 if feature.is_categorical else feature.lower for feature in features])
        upper = np.array([0.0 if feature.is_categorical else feature.upper for feature in features])
        self.size, self.zero = tensor((encoder.scale / step)[owner]), tensor((encoder.mean / step)[owner])
        self.lower, self.upper = tensor((lower / step)[owner]), tensor((upper / step)[owner])
        starts = [encoder.columns[j].start for j in circular]
        self.circular = torch.tensor(starts, dtype=torch.long, device=device)
        self.categories = tensor(np.array([len(features[j].categories) for j in circular], dtype=np.float64))
        self.levels = self.categories + tensor(np.array([features[j].nullable for j in circular], dtype=np.float64))

    def snap(self, points: Tensor) -> Tensor:
        """points (B, D) -> the nearest decodable points (B, D); never a missing level"""
        steps = torch.addcmul(self.zero, points, self.size)
        steps = torch.minimum(torch.maximum(steps, self.lower), self.upper)
        snapped = (torch.round(steps) - self.zero) / self.size
        if len(self.circular):
            angle = torch.atan2(points[:, self.circular + 1], points[:, self.circular])
            width = 2 * math.pi / self.levels
            turn = torch.remainder(angle, 2 * math.pi) / width
            level = torch.remainder(torch.round(turn), self.levels)
            beside = torch.where(turn < level, level - 1, torch.zeros_like(level))
            level = torch.where(level >= self.categories, beside, level)
            snapped[:, self.circular] = torch.cos(level * width)
            snapped[:, self.circular + 1] = torch.sin(level * width)
        return snapped

    def through(self, points: Tensor) -> Tensor:
        """As `snap`, with the gradient of the identity."""
        return points + (self.snap(points) - points).detach()
