"""What the distilled surrogate says of decoded points (METHOD.md, sections 2 and 4).

Expected agreement is the calibrated share of black boxes that say the target; density is S(x | y*), the lower of both
networks'. Typicality says how usual that density is: the paper's trust region, S >= log tau, tells data from noise that
fills a box, and in many dimensions nearly everything passes. Real records that no network was taught on, those of the
validation split, say which density is usual.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arrays import Encoded, Records, Targets
from ..model import RecourseModel
from ..networks.batching import BLOCK, chunks
from ..networks.density import pair_density, trust_threshold
from ..networks.surrogate import SurrogateOutput


@dataclass(frozen=True)
class Scores:
    """agreement (n,): the expected share of models that say the target; density (n,): the lower of both S(x | y*)."""

    agreement: NDArray[np.float64]
    density: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LogitGradient:
    """The logit of the expected agreement (n,) and its gradient (n, D)."""

    logit: NDArray[np.float64]
    gradient: Encoded

    def at(self, rows: NDArray[np.intp]) -> "LogitGradient":
        return LogitGradient(self.logit[rows], self.gradient[rows])


def score_points(model: RecourseModel, points: Encoded, target: Targets) -> Scores:
    """points (n, D), target (n,) -> Scores"""
    agreement, density = np.empty(len(points)), np.empty(len(points))
    for rows in chunks(len(points)):
        x, y = to_tensors(model, points[rows], target[rows])
        with torch.inference_mode():
            outputs = model.pair(x)
            votes, dense = _share(target_logit(model, outputs, y)), pair_density(outputs, y)
        size = rows.stop - rows.start
        agreement[rows], density[rows] = votes[:size].cpu().numpy(), dense[:size].cpu().numpy()
    return Scores(agreement, density)


def expected_shares(model: RecourseModel, points: Encoded) -> NDArray[np.float64]:
    """points (n, D) -> the expected share of votes for each class (n, K)"""
    shares = np.empty((len(points), len(model.classes)))
    for rows in chunks(len(points)):
        x, _ = to_tensors(model, points[rows], np.zeros(rows.stop - rows.start, dtype=np.int64))
        with torch.inference_mode():
            said = torch.softmax(_log_shares(model, model.pair(x)), dim=1)
        shares[rows] = said[: rows.stop - rows.start].cpu().numpy()
    return shares


def vote_uncertainty(model: RecourseModel, points: Encoded) -> NDArray[np.float64]:
    """points (n, D) -> the uncertainty of the votes (n,): the Gini impurity of the expected shares

    It is the chance that two models, drawn from those that are expected, vote differently.
    """
    return np.asarray(1.0 - (expected_shares(model, points) ** 2).sum(axis=1))


def score_with_gradients(model: RecourseModel, points: Encoded, target: Targets) -> tuple[Scores, LogitGradient]:
    """points (n, D), target (n,) -> what `score_points` says, with the gradients of the logit there"""
    scores = Scores(np.empty(len(points)), np.empty(len(points)))
    gradients = LogitGradient(np.empty(len(points)), np.empty(points.shape))
    for rows in chunks(len(points)):
        x, y = to_tensors(model, points[rows], target[rows])
        x.requires_grad_()
        outputs = model.pair(x)
        logit = target_logit(model, outputs, y)
        (gradient,) = torch.autograd.grad(logit.sum(), x)
        with torch.inference_mode():
            dense, votes = pair_density(outputs, y), _share(logit.detach())
        size = rows.stop - rows.start
        scores.agreement[rows], scores.density[rows] = votes[:size].cpu().numpy(), dense[:size].detach().cpu().numpy()
        gradients.logit[rows] = logit[:size].detach().cpu().numpy()
        gradients.gradient[rows] = gradient[:size].cpu().numpy()
    return scores, gradients


def _share(logit: Tensor) -> Tensor:
    """The sigmoid of logit (B,). Not torch's own: with AVX-512 it rounds the last B modulo 32 numbers differently."""
    return 1 / (1 + torch.exp(-logit))


def target_logit(model: RecourseModel, outputs: tuple[SurrogateOutput, SurrogateOutput], target: Tensor) -> Tensor:
    """log(a / (1 - a)) of the calibrated agreement a with target (B,) -> (B,)"""
    scaled, column = _log_shares(model, outputs), target[:, None]
    others = scaled.scatter(1, column, -torch.inf)
    return scaled.gather(1, column).squeeze(1) - torch.logsumexp(others, dim=1)


def _log_shares(model: RecourseModel, outputs: tuple[SurrogateOutput, SurrogateOutput]) -> Tensor:
    """The calibrated log shares (B, K), up to what all classes have in common"""
    mean = (outputs[0].log_class_share + outputs[1].log_class_share) / 2
    bias = torch.from_numpy(model.calibration.bias.astype(np.float32)).to(mean.device)
    return torch.add(bias, mean, alpha=model.calibration.slope)


def to_tensors(model: RecourseModel, points: Encoded, target: Targets) -> tuple[Tensor, Tensor]:
    """The rows as tensors on the model's device, padded with the last row as `padded` does."""
    count, device = len(points), model.device
    x = np.empty((count + -count % BLOCK, points.shape[1]), dtype=np.float32)
    y = np.empty(len(x), dtype=np.int64)
    x[:count], y[:count] = points, target
    x[count:], y[count:] = x[count - 1], y[count - 1]
    return torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)


PERCENTS = np.linspace(0.0, 1.0, 101)


def measure_density_quantiles(model: RecourseModel, records: Records, labels: Targets) -> tuple[tuple[float, ...], ...]:
    """records (n, F), labels (n,) -> the percentiles of the density score in each class, none where it has no record"""
    scores = score_points(model, model.encoder.encode(records), labels).density
    classes = (scores[labels == label] for label in range(len(model.classes)))
    return tuple(tuple(np.quantile(own, PERCENTS).tolist()) if len(own) else () for own in classes)


def typicality(model: RecourseModel, target: int, density: float) -> float | None:
    """The share of real records of the target class with a lower score; None where no such record is known"""
    usual = model.density_quantiles[target] if model.density_quantiles else ()
    return float(np.interp(density, usual, PERCENTS)) if usual else None


def is_trusted(model: RecourseModel, density: float, typical: float | None) -> bool:
    """In the paper's trust region, and not among the least typical"""
    return density >= trust_threshold(model.config.noise) and (
        typical is None or typical >= model.config.search.least_typicality
    )
