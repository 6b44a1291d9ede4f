"""What the surrogate learns from besides the labelled data: queried labels and pseudo-labels.

Queried labels are answers of the lender's ensemble; each one was paid for, is kept, and is used in every later round
(docs/METHOD.md, section 4; paper, "Query-Efficient Local Distillation"). Pseudo-labels cost no query: the jury
(models/training/jury.py) labels as many points as we like, and the queried labels correct it.

Shapes: n points, D encoded columns, K classes, s jurors.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arrays import Encoded, Records
from ..config import PseudoLabelConfig, ResidualConfig
from ..ensemble.protocol import Ensemble
from ..errors import EnsembleError
from ..space.encoding import Encoder
from ..space.snapping import Snapper
from .jury import Jury
from .residual_ridge import Residuals, fit_residuals


@dataclass(frozen=True)
class QueriedLabels:
    """Answers of the ensemble.

    points  (q, D), and the target class that was asked for there: target (q,)
    mean    (q, K), the mean probability of each class
    shares  (q, K), the share of each class among the models that answered
    """

    points: Tensor
    target: Tensor
    mean: Tensor
    shares: Tensor

    def extend(self, more: "QueriedLabels") -> "QueriedLabels":
        """These labels and then `more` of them."""
        pairs = zip(self.parts, more.parts, strict=True)
        return QueriedLabels(*(torch.cat([old, new]) for old, new in pairs))

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.points, self.target, self.mean, self.shares

    @classmethod
    def empty(cls, width: int, classes: int, device: torch.device) -> "QueriedLabels":
        target = torch.empty(0, dtype=torch.long, device=device)
        points, mean = torch.empty(0, width, device=device), torch.empty(0, classes, device=device)
        return cls(points, target, mean, torch.empty(0, classes, device=device))


def query_ensemble(ensemble: Ensemble, encoder: Encoder, records: Records, target: Tensor) -> QueriedLabels:
    """Put records (q, F), each with its target class (q,), to the ensemble: one query a record.

    A record that no member answered has no label and is left out; EnsembleError where that is true of all of them.
    """
    answered = ensemble.predict_proba(records)
    present = np.logical_not(np.isnan(answered).any(axis=2))
    known = present.any(axis=0)
    if len(records) and not known.any():
        raise EnsembleError(f"No model of the ensemble answered for any of {len(records)} records; see that it is up.")
    answered, present, classes = answered[:, known], present[:, known], answered.shape[2]
    weight = present[:, :, None] / present.sum(axis=0)[None, :, None]
    filled = np.where(present[:, :, None], answered, 0.0)
    said = (filled.argmax(axis=2)[:, :, None] == np.arange(classes)) & present[:, :, None]

    def tensor(values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(target.device)

    points = tensor(encoder.encode(records[known]))
    kept = target[torch.from_numpy(known).to(target.device)]
    return QueriedLabels(points, kept, tensor((filled * weight).sum(axis=0)), tensor((said * weight).sum(axis=0)))


class PseudoLabels:
    """Points and what the jury says there, corrected by what was queried.

    points       (n, D)
    votes        (s, n, K), what each juror says of each point
    soft_labels  (n, K), the share of votes that is expected there: the jury's, and what the lender's models add to it
    """

    def __init__(self, jury: Jury, width: int, classes: int, device: torch.device, residuals: ResidualConfig) -> None:
        self.jury, self.residual_config = jury, residuals
        self.residuals: Residuals | None = None
        self.votes = np.empty((len(jury.jurors), 0, classes), dtype=np.float32)
        self.points = torch.empty(0, width, device=device)
        self.soft_labels = torch.empty(0, classes, device=device)

    def add(self, points: Tensor) -> None:
        """Label points (n, D) and keep them"""
        votes = self.jury.votes(_as_encoded(points))
        self.votes = np.concatenate([self.votes, votes], axis=1)
        self.points = torch.cat([self.points, points])
        self.soft_labels = torch.cat([self.soft_labels, self._label(votes, points)])

    def draw(self, count: int, random: torch.Generator) -> Tensor:
        """The rows of a batch of `count` points (count,)"""
        return torch.randint(len(self.points), (count,), generator=random, device=random.device)

    def restore(self, points: Tensor, votes: NDArray[np.float32], queried: QueriedLabels) -> None:
        """Take up what a checkpoint kept: points (n, D), votes (s, n, K), and what had been queried by then"""
        self.points, self.votes = points, votes
        self.soft_labels = self._label(votes, points)
        self.fit(queried)

    def fit(self, queried: QueriedLabels) -> None:
        """Fit the residuals to the queried labels, and label every point again, all in one pass: a run that goes on
        from a checkpoint does the same, and has the same bits."""
        if not len(queried.points):
            return
        points, answers = _as_encoded(queried.points), queried.shares.cpu().numpy().astype(np.float64)
        votes = self.jury.votes(points)
        errors = answers - votes.mean(axis=0)
        self.residuals = fit_residuals(points, self.jury.logits(votes), errors, self.residual_config)
        self.soft_labels = self._label(self.votes, self.points)

    def _label(self, votes: NDArray[np.float32], points: Tensor) -> Tensor:
        """votes (s, n, K) on points (n, D) -> soft labels (n, K)"""
        said = votes.mean(axis=0, dtype=np.float64)
        if self.residuals is not None:
            said = np.clip(said + self.residuals.at(_as_encoded(points), self.jury.logits(votes)), 0.0, 1.0)
            said /= said.sum(axis=1, keepdims=True)
        return torch.from_numpy(said.astype(np.float32)).to(points.device)


def _as_encoded(points: Tensor) -> Encoded:
    return points.cpu().numpy().astype(np.float64)


def mix_points(
    points: Tensor, labels: Tensor, snapper: Snapper, config: PseudoLabelConfig, random: torch.Generator
) -> Tensor:
    """Decodable points between the classes, where the votes turn.   points (n, D), labels (n,) -> (config.count, D)

    Each lies between a point and a nearby point of another class: some columns stay, some go part of the way, and each
    categorical feature is taken from one of the two.
    """
    device, width, count = points.device, points.shape[1], config.count
    here = torch.randint(len(points), (count,), generator=random, device=device)
    drawn = torch.randint(len(points), (count, config.neighbours), generator=random, device=device)
    far = (points[drawn] - points[here][:, None]).norm(dim=2) + 1e6 * (labels[drawn] == labels[here][:, None])
    there = drawn.gather(1, far.argmin(dim=1, keepdim=True)).squeeze(1)
    start, end = points[here], points[there]
    way = torch.rand(count, 1, generator=random, device=device)
    noise = config.jitter * torch.randn(count, width, generator=random, device=device)
    mixed = start + way * (end - start) + noise
    kept = torch.rand(count, width, generator=random, device=device) < config.kept
    mixed = torch.where(kept, start, mixed)
    for columns in snapper.categories:
        taken = torch.rand(count, 1, generator=random, device=device) < way
        mixed[:, columns] = torch.where(taken, end[:, columns], start[:, columns])
    return snapper.snap(mixed)
