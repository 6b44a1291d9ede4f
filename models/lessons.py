"""What the surrogate is taught beside the labelled data: points, and how the models vote on them.

Free lessons are voted on by the plausible models; bought ones were answered by the black boxes, metered. Every answer
that was bought is kept and used again in each later round.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.encoding import Encoder
from models.ensemble.protocol import Ensemble
from models.errors import EnsembleError
from models.matrix import Encoded, Records
from models.plausible import PlausibleModels
from models.residuals import Residuals, fit_residuals
from models.snapping import Snapper


@dataclass(frozen=True)
class Bought:
    """Answers of the ensemble: points (Q, D); target (Q,); mean, shares (Q, K): mean probability and share of votes."""

    points: Tensor
    target: Tensor
    mean: Tensor
    shares: Tensor

    def extend(self, more: "Bought") -> "Bought":
        pairs = zip(self.parts, more.parts, strict=True)
        return Bought(*(torch.cat([old, new]) for old, new in pairs))

    def part(self, where: slice) -> "Bought":
        return Bought(*(tensor[where] for tensor in self.parts))

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.points, self.target, self.mean, self.shares

    @classmethod
    def nothing(cls, width: int, classes: int, device: torch.device) -> "Bought":
        empty = torch.empty(0, classes, device=device)
        target = torch.empty(0, dtype=torch.long, device=device)
        return cls(torch.empty(0, width, device=device), target, empty, empty)


def buy(ensemble: Ensemble, encoder: Encoder, records: Records, target: Tensor) -> Bought:
    """Put records (q, F) to the ensemble; a record that no member answered teaches nothing and is left out."""
    answered = ensemble.predict_proba(records)
    present = np.logical_not(np.isnan(answered).any(axis=2))
    known = present.any(axis=0)
    if len(records) and not known.any():
        raise EnsembleError(f"No model of the ensemble answered for any of {len(records)} records; see that it is up.")
    answered, present, classes = answered[:, known], present[:, known], answered.shape[2]
    weight = present[:, :, None] / present.sum(axis=0)[None, :, None]
    filled = np.where(present[:, :, None], answered, 0.0)
    said = filled.argmax(axis=2)[:, :, None] == np.arange(classes)

    def tensor(values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(target.device)

    points = tensor(encoder.encode(records[known]))
    kept = target[torch.from_numpy(known).to(target.device)]
    return Bought(points, kept, tensor((filled * weight).sum(axis=0)), tensor((said * weight).sum(axis=0)))


class FreeLessons:
    """Points on which the plausible models voted; weighed anew, and set right near them, as answers are bought."""

    def __init__(self, models: PlausibleModels, width: int, device: torch.device) -> None:
        self.models = models
        self.weights = models.equal_weights
        self.residuals: Residuals | None = None
        self.votes = np.empty((len(models.voters), 0, models.classes), dtype=np.float32)
        self.points = torch.empty(0, width, device=device)
        self.shares = torch.empty(0, models.classes, device=device)
        self.practice = torch.empty(0, dtype=torch.long, device=device)

    def add(self, points: Tensor, practice: bool = False) -> None:
        """points (n, D) are voted on and kept; practice: what a search chose, taught more often than the rest"""
        if practice:
            rows = torch.arange(len(self.points), len(self.points) + len(points), device=points.device)
            self.practice = torch.cat([self.practice, rows])
        votes = self.models.votes(_as_encoded(points))
        self.votes = np.concatenate([self.votes, votes], axis=1)
        self.points = torch.cat([self.points, points])
        self.shares = torch.cat([self.shares, self._shares(votes, points)])

    def draw(self, count: int, random: torch.Generator) -> Tensor:
        """The rows of `count` lessons (count,), half of them from practice once there is any"""
        if not len(self.practice):
            return torch.randint(len(self.points), (count,), generator=random, device=random.device)
        half = count // 2
        drawn = torch.randint(len(self.practice), (half,), generator=random, device=random.device)
        others = torch.randint(len(self.points), (count - half,), generator=random, device=random.device)
        return torch.cat([self.practice[drawn], others])

    def restore(self, points: Tensor, votes: NDArray[np.float32], practice: Tensor, bought: Bought) -> None:
        """Take up lessons that were given before: points (n, D), votes (s, n, K), and what was bought by then"""
        self.points, self.votes, self.practice = points, votes, practice
        self.shares = self._shares(votes, points)
        self.weigh(bought)

    def weigh(self, bought: Bought) -> None:
        """Weigh the voters by how they side with the black boxes, learn what they lack, and teach so."""
        if not len(bought.points):
            return
        points, shares = _as_encoded(bought.points), bought.shares.cpu().numpy().astype(np.float64)
        votes = self.models.votes(points)
        self.weights = self.models.weigh(votes, shares)
        self.residuals = fit_residuals(points, shares - self.models.shares(votes, self.weights))
        self.shares = self._shares(self.votes, self.points)

    def _shares(self, votes: NDArray[np.float32], points: Tensor) -> Tensor:
        """votes (s, n, K) on points (n, D) -> the shares that are taught (n, K)"""
        shares = self.models.shares(votes, self.weights)
        if self.residuals is not None:
            shares = np.clip(shares + self.residuals.at(_as_encoded(points)), 0.0, 1.0)
            shares /= shares.sum(axis=1, keepdims=True)
        return torch.from_numpy(shares.astype(np.float32)).to(points.device)


def _as_encoded(points: Tensor) -> Encoded:
    return points.cpu().numpy().astype(np.float64)


def mix_points(points: Tensor, labels: Tensor, snapper: Snapper, count: int, random: torch.Generator) -> Tensor:
    """Decodable points between the classes, where the votes turn.   points (n, D), labels (n,) -> (count, D)

    Each lies between a point and a nearby point of another class: some columns stay, some go part of the way, and each
    circle is taken from one of the two.
    """
    device, width = points.device, points.shape[1]
    here = torch.randint(len(points), (count,), generator=random, device=device)
    drawn = torch.randint(len(points), (count, 8), generator=random, device=device)
    far = (points[drawn] - points[here][:, None]).norm(dim=2) + 1e6 * (labels[drawn] == labels[here][:, None])
    there = drawn.gather(1, far.argmin(dim=1, keepdim=True)).squeeze(1)
    start, end = points[here], points[there]
    way = torch.rand(count, 1, generator=random, device=device)
    mixed = start + way * (end - start) + 0.1 * torch.randn(count, width, generator=random, device=device)
    kept = torch.rand(count, width, generator=random, device=device) < 0.4
    mixed = torch.where(kept, start, mixed)
    for column in snapper.circular.tolist():
        taken = torch.rand(count, 1, generator=random, device=device) < way
        circle = slice(column, column + 2)
        mixed[:, circle] = torch.where(taken, end[:, circle], start[:, circle])
    return snapper.snap(mixed)
