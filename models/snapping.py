"""Decoding inside training: the encoder's decode as tensor arithmetic, with a straight-through gradient.

Models see only records that somebody could hold, so the generator is trained on where its path lands after decoding.
The search itself decodes with the encoder, exactly.
"""

import math

import numpy as np
import torch
from torch import Tensor

from models.encoding import Encoder


class Snapper:
    """Moves points to the nearest decodable ones: numbers to their grid, pairs of columns to the points of a circle."""

    def __init__(self, encoder: Encoder, device: torch.device) -> None:
        features = encoder.schema.features
        numeric = [j for j, feature in enumerate(features) if not feature.is_categorical]
        circular = [j for j, feature in enumerate(features) if feature.is_categorical]

        def tensor(values: list[float]) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=device)

        self.numeric = torch.tensor([encoder.columns[j].start for j in numeric], dtype=torch.long, device=device)
        self.circular = torch.tensor([encoder.columns[j].start for j in circular], dtype=torch.long, device=device)
        self.mean, self.scale = tensor(encoder.mean[numeric].tolist()), tensor(encoder.scale[numeric].tolist())
        self.lower = tensor([features[j].lower for j in numeric])
        self.upper = tensor([features[j].upper for j in numeric])
        self.step = tensor([features[j].step for j in numeric])
        self.categories = tensor([len(features[j].categories) for j in circular])
        nullable = np.array([features[j].nullable for j in circular], dtype=np.float32)
        self.levels = self.categories + torch.from_numpy(nullable).to(device)

    def snap(self, points: Tensor) -> Tensor:
        """points (B, D) -> the nearest decodable points (B, D); never a missing level"""
        snapped = points.clone()
        if len(self.numeric):
            raw = points[:, self.numeric] * self.scale + self.mean
            raw = torch.minimum(torch.maximum(raw, self.lower), self.upper)
            snapped[:, self.numeric] = (torch.round(raw / self.step) * self.step - self.mean) / self.scale
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
