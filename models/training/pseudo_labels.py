"""What the surrogate learns from besides the labelled data: queried labels and pseudo-labels.

Queried labels are answers of the lender's ensemble; each one was paid for, is kept, and is used in every later round
(docs/METHOD.md, section 4; paper, "Query-Efficient Local Distillation"). Pseudo-labels cost no query: the teachers
(models/training/teachers.py) label as many points as we like, and the queried labels correct them.

Shapes: n points, D encoded columns, K classes, s teachers, H heads (one for each black box, or one for all of them).
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
from .residual_ridge import Residuals, fit_residuals
from .teachers import TeacherEnsemble


@dataclass(frozen=True)
class QueriedLabels:
    """Answers of the ensemble.

    points  (q, D), and the target class that was asked for there: target (q,)
    mean    (q, K), the mean probability of each class
    votes   (q, H, K), the class that each model says, one-hot; zeros where it did not answer; with one head, the share
            of the models that say each class
    """

    points: Tensor
    target: Tensor
    mean: Tensor
    votes: Tensor

    def extend(self, more: "QueriedLabels") -> "QueriedLabels":
        """These labels and then `more` of them."""
        pairs = zip(self.parts, more.parts, strict=True)
        return QueriedLabels(*(torch.cat([old, new]) for old, new in pairs))

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.points, self.target, self.mean, self.votes

    @property
    def shares(self) -> Tensor:
        """The share of each class among the models that answered (q, K)"""
        said = self.votes.sum(dim=1)
        return said / said.sum(dim=1, keepdim=True)

    @classmethod
    def empty(cls, width: int, heads: int, classes: int, device: torch.device) -> "QueriedLabels":
        target = torch.empty(0, dtype=torch.long, device=device)
        points, mean = torch.empty(0, width, device=device), torch.empty(0, classes, device=device)
        return cls(points, target, mean, torch.empty(0, heads, classes, device=device))


def query_ensemble(ensemble: Ensemble, encoder: Encoder, records: Records, target: Tensor, heads: int) -> QueriedLabels:
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
    votes = said if heads == len(said) else (said * weight).sum(axis=0, keepdims=True)

    def tensor(values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(target.device)

    points = tensor(encoder.encode(records[known]))
    kept = target[torch.from_numpy(known).to(target.device)]
    return QueriedLabels(points, kept, tensor((filled * weight).sum(axis=0)), tensor(votes.transpose(1, 0, 2)))


class PseudoLabels:
    """Points and what the teacher ensemble says there; queried labels weigh the teachers and correct them.

    points       (n, D)
    votes        (s, n, K), what each teacher says of each point
    soft_labels  (n, H, K), what each black box is expected to say there: stacked votes plus residuals
    on_policy    (p,), the rows of the points that a search with the model of that time chose (dataset aggregation)
    """

    def __init__(
        self,
        teachers: TeacherEnsemble,
        width: int,
        heads: int,
        device: torch.device,
        residuals: ResidualConfig | None = None,
        on_policy_share: float = 0.5,
    ) -> None:
        self.teachers, self.on_policy_share = teachers, on_policy_share
        self.residual_config = residuals or ResidualConfig()
        self.weights = teachers.equal_weights(heads)
        self.residuals: Residuals | None = None
        self.votes = np.empty((len(teachers.teachers), 0, teachers.classes), dtype=np.float32)
        self.points = torch.empty(0, width, device=device)
        self.soft_labels = torch.empty(0, heads, teachers.classes, device=device)
        self.on_policy = torch.empty(0, dtype=torch.long, device=device)

    def add(self, points: Tensor, on_policy: bool = False) -> None:
        """Label points (n, D) and keep them; on_policy: what a search chose, drawn more often than the rest"""
        if on_policy:
            rows = torch.arange(len(self.points), len(self.points) + len(points), device=points.device)
            self.on_policy = torch.cat([self.on_policy, rows])
        votes = self.teachers.votes(_as_encoded(points))
        self.votes = np.concatenate([self.votes, votes], axis=1)
        self.points = torch.cat([self.points, points])
        self.soft_labels = torch.cat([self.soft_labels, self._label(votes, points)])

    def draw(self, count: int, random: torch.Generator) -> Tensor:
        """The rows of a batch of `count` points (count,), on_policy_share of them on-policy once there are any"""
        if not len(self.on_policy):
            return torch.randint(len(self.points), (count,), generator=random, device=random.device)
        half = int(count * self.on_policy_share)
        drawn = torch.randint(len(self.on_policy), (half,), generator=random, device=random.device)
        others = torch.randint(len(self.points), (count - half,), generator=random, device=random.device)
        return torch.cat([self.on_policy[drawn], others])

    def restore(self, points: Tensor, votes: NDArray[np.float32], on_policy: Tensor, queried: QueriedLabels) -> None:
        """Take up what a checkpoint kept: points (n, D), votes (s, n, K), and what had been queried by then"""
        self.points, self.votes, self.on_policy = points, votes, on_policy
        self.soft_labels = self._label(votes, points)
        self.fit(queried)

    def fit(self, queried: QueriedLabels) -> None:
        """Fit the stacking weights and the residuals to the queried labels, and label every point anew."""
        if not len(queried.points):
            return
        points, answers = _as_encoded(queried.points), queried.votes.cpu().numpy().astype(np.float64)
        votes = self.teachers.votes(points)
        self.weights = self.teachers.fit_stacking_weights(votes, answers)
        errors = (answers - self.teachers.expected(votes, self.weights)) * answers.any(axis=2, keepdims=True)
        logits, errors = self.teachers.teacher_logits(votes), errors.reshape(len(points), -1)
        self.residuals = fit_residuals(points, logits, errors, self.residual_config)
        self.relabel()

    def relabel(self) -> None:
        """Label all points in one pass, as a run that goes on from a checkpoint does: equal bits in both."""
        self.soft_labels = self._label(self.votes, self.points)

    @property
    def shares(self) -> Tensor:
        """The expected share of the black boxes' votes for each class at each point (n, K)"""
        return self.soft_labels.mean(dim=1)

    def _label(self, votes: NDArray[np.float32], points: Tensor) -> Tensor:
        """votes (s, n, K) on points (n, D) -> soft labels (n, H, K)"""
        said = self.teachers.expected(votes, self.weights)
        if self.residuals is not None:
            errors = self.residuals.at(_as_encoded(points), self.teachers.teacher_logits(votes))
            said = np.clip(said + errors.reshape(said.shape), 0.0, 1.0)
            said /= said.sum(axis=2, keepdims=True)
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
