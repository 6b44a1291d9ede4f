"""What the distilled surrogate says of decoded points: the expected agreement of the black boxes, and the density."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.density import density_score
from models.matrix import Encoded
from models.model import RecourseModel
from models.surrogate import Reading

BLOCK = 64
"""Rows are padded to a multiple of this: with fewer, the linear algebra takes another path, and a record's answer would
differ in its last bits from the answer that it gets in a large batch."""
CHUNK = 128 * BLOCK

Targets = NDArray[np.int64]


@dataclass(frozen=True)
class Scores:
    """agreement (n,): the expected share of models that say the target; density (n,): the lower of both S(x | y*)."""

    agreement: NDArray[np.float64]
    density: NDArray[np.float64]


def device_of(model: RecourseModel) -> torch.device:
    return next(model.velocity.parameters()).device


def padded(values: Tensor) -> Tensor:
    """values (n, ...) -> (n', ...), n' the next multiple of BLOCK, the last row repeated"""
    lacking = -len(values) % BLOCK
    return torch.cat([values, values[-1:].expand(lacking, *values.shape[1:])]) if lacking else values


def chunks(count: int) -> Iterator[slice]:
    """Slices that cover `count` rows, CHUNK at a time"""
    return (slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK))


def score_points(model: RecourseModel, points: Encoded, target: Targets) -> Scores:
    """points (n, D), target (n,) -> Scores"""
    agreement, density = np.empty(len(points)), np.empty(len(points))
    for rows in chunks(len(points)):
        x, y = to_tensors(model, points[rows], target[rows])
        with torch.inference_mode():
            readings = model.pair(x)
            votes = torch.sigmoid(target_logit(model, readings, y))
            dense = torch.minimum(density_score(readings[0].logits, y), density_score(readings[1].logits, y))
        size = rows.stop - rows.start
        agreement[rows], density[rows] = votes[:size].cpu().numpy(), dense[:size].cpu().numpy()
    return Scores(agreement, density)


def logit_and_gradient(model: RecourseModel, points: Encoded, target: Targets) -> tuple[Encoded, Encoded]:
    """points (n, D), target (n,) -> the logit of the expected agreement (n,), its gradient (n, D)"""
    logits, gradients = np.empty(len(points)), np.empty(points.shape)
    for rows in chunks(len(points)):
        x, y = to_tensors(model, points[rows], target[rows])
        x.requires_grad_(True)
        with torch.enable_grad():
            logit = target_logit(model, model.pair(x), y)
            (gradient,) = torch.autograd.grad(logit.sum(), x)
        size = rows.stop - rows.start
        logits[rows], gradients[rows] = logit.detach()[:size].cpu().numpy(), gradient[:size].cpu().numpy()
    return logits, gradients


def target_logit(model: RecourseModel, readings: tuple[Reading, Reading], target: Tensor) -> Tensor:
    """log(a / (1 - a)) of the calibrated agreement a with target (B,) -> (B,)"""
    bias = torch.from_numpy(model.calibration.bias).to(target.device, torch.float32)
    mean = (readings[0].log_valid + readings[1].log_valid) / 2
    scaled = model.calibration.slope * mean + bias
    chosen = scaled.gather(1, target[:, None])
    others = scaled.scatter(1, target[:, None], -torch.inf)
    return chosen.squeeze(1) - torch.logsumexp(others, dim=1)


def to_tensors(model: RecourseModel, points: Encoded, target: Targets) -> tuple[Tensor, Tensor]:
    """The rows as padded tensors on the model's device."""
    device = device_of(model)
    x = torch.from_numpy(points.astype(np.float32)).to(device)
    y = torch.from_numpy(np.asarray(target, dtype=np.int64)).to(device)
    return padded(x), padded(y)
