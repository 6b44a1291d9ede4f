"""What the surrogate is taught beside the labelled data: points, and how the models vote on them.

Free lessons are voted on by the plausible models; bought ones were answered by the black boxes, metered. Every answer
that was bought is kept and used again in each later round.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arrays import Encoded, Records
from ..ensemble.protocol import Ensemble
from ..errors import EnsembleError
from ..space.encoding import Encoder
from ..space.snapping import Snapper
from .residual_ridge import Residuals, fit_residuals
from .teachers import PlausibleModels


@dataclass(frozen=True)
class Bought:
    """Answers of the ensemble.

    points  (Q, D), and what was asked for there: target (Q,)
    mean    (Q, K), the mean probability of each class
    votes   (Q, H, K), what each model says, zeros where it did not answer; with one head, the share of those who did
    """

    points: Tensor
    target: Tensor
    mean: Tensor
    votes: Tensor

    def extend(self, more: "Bought") -> "Bought":
        pairs = zip(self.parts, more.parts, strict=True)
        return Bought(*(torch.cat([old, new]) for old, new in pairs))

    def part(self, where: slice) -> "Bought":
        return Bought(*(tensor[where] for tensor in self.parts))

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.points, self.target, self.mean, self.votes

    @property
    def shares(self) -> Tensor:
        """The share of each class in the votes that there are (Q, K)"""
        said = self.votes.sum(dim=1)
        return said / said.sum(dim=1, keepdim=True)

    @classmethod
    def nothing(cls, width: int, heads: int, classes: int, device: torch.device) -> "Bought":
        target = torch.empty(0, dtype=torch.long, device=device)
        points, mean = torch.empty(0, width, device=device), torch.empty(0, classes, device=device)
        return cls(points, target, mean, torch.empty(0, heads, classes, device=device))


def buy(ensemble: Ensemble, encoder: Encoder, records: Records, target: Tensor, heads: int) -> Bought:
    """Put records (q, F) to the ensemble; a record that no member answered teaches nothing and is left out."""
    answered = ensemble.predict_proba(records)
    present = np.logical_not(np.isnan(answered).any(axis=2))
    known = present.any(axis=0)
    if len(records) and not known.any():
        raise EnsembleError(f"No model of the ensemble answered for any of {len(records)} records; see that it is up.")
    answered, present, classes = answered[:, known], present[:, known], answered.shape[2]
    weight = present[:, :, None] / present.sum(axis=0)[None, :, None]
    filled = np.where(present[:, :, None], answered, 0.0)
    said = (filled.argmax(axis=2)[:, :, None] == np.arange(classes)) & present[:, :, None]
    votes = said if heads == len(said) else (said * weight).sum(axis=0, keepdims=True)

    def tensor(values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(target.device)

    points = tensor(encoder.encode(records[known]))
    kept = target[torch.from_numpy(known).to(target.device)]
    return Bought(points, kept, tensor((filled * weight).sum(axis=0)), tensor(votes.transpose(1, 0, 2)))


class FreeLessons:
    """Points on which the plausible models voted; weighed anew, and set right near them, as answers are bought."""

    def __init__(self, models: PlausibleModels, width: int, heads: int, device: torch.device) -> None:
        self.models = models
        self.weights = models.equal_weights(heads)
        self.residuals: Residuals | None = None
        self.votes = np.empty((len(models.voters), 0, models.classes), dtype=np.float32)
        self.points = torch.empty(0, width, device=device)
        self.taught = torch.empty(0, heads, models.classes, device=device)
        self.practice = torch.empty(0, dtype=torch.long, device=device)

    def add(self, points: Tensor, practice: bool = False) -> None:
        """points (n, D) are voted on and kept; practice: what a search chose, taught more often than the rest"""
        if practice:
            rows = torch.arange(len(self.points), len(self.points) + len(points), device=points.device)
            self.practice = torch.cat([self.practice, rows])
        votes = self.models.votes(_as_encoded(points))
        self.votes = np.concatenate([self.votes, votes], axis=1)
        self.points = torch.cat([self.points, points])
        self.taught = torch.cat([self.taught, self._taught(votes, points)])

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
        self.taught = self._taught(votes, points)
        self.weigh(bought)

    def weigh(self, bought: Bought) -> None:
        """Weigh the voters by how they side with the black boxes, learn what they lack, and teach so."""
        if not len(bought.points):
            return
        points, answers = _as_encoded(bought.points), bought.votes.cpu().numpy().astype(np.float64)
        votes = self.models.votes(points)
        self.weights = self.models.weigh(votes, answers)
        lacking = (answers - self.models.expected(votes, self.weights)) * answers.any(axis=2, keepdims=True)
        self.residuals = fit_residuals(points, self.models.views(votes), lacking.reshape(len(points), -1))
        self.teach()

    def teach(self) -> None:
        """Recompute the pseudo-labels of all points at once, as a run that resumes from a checkpoint does."""
        self.taught = self._taught(self.votes, self.points)

    @property
    def shares(self) -> Tensor:
        """The share of the votes for each class at each point (n, K)"""
        return self.taught.mean(dim=1)

    def _taught(self, votes: NDArray[np.float32], points: Tensor) -> Tensor:
        """votes (s, n, K) on points (n, D) -> what each black box is taught to say there (n, H, K)"""
        said = self.models.expected(votes, self.weights)
        if self.residuals is not None:
            lacking = self.residuals.at(_as_encoded(points), self.models.views(votes))
            said = np.clip(said + lacking.reshape(said.shape), 0.0, 1.0)
            said /= said.sum(axis=2, keepdims=True)
        return torch.from_numpy(said.astype(np.float32)).to(points.device)


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
