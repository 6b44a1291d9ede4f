"""Candidates of a search: N paths a record, from perturbed starts, at costs spread along the dial (Algorithm 2)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from models.allowed import Allowed
from models.anchors import approach
from models.constraints import encoded_box
from models.encoding import cost
from models.flow import Path, solve
from models.matrix import Encoded, Records
from models.model import RecourseModel
from models.scoring import Scores, Slopes, Targets, chunks, device_of, padded, score_points, score_with_slopes
from models.velocity import Request

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Candidates:
    """c candidates for each of n records: records (n, c, F), points (n, c, D); cost, agreement, density (n, c)."""

    records: Records
    points: Encoded
    cost: Floats
    agreement: Floats
    density: Floats

    def take(self, chosen: NDArray[np.intp]) -> "Candidates":
        """chosen (n, k), positions -> the k chosen ones of each record"""
        rows = np.arange(len(self.cost))[:, None]
        return Candidates(*(part[rows, chosen] for part in self.parts))

    def take_rows(self, rows: NDArray[np.intp]) -> "Candidates":
        """rows (m,) -> the candidates of m records"""
        return Candidates(*(part[rows] for part in self.parts))

    def replace_rows(self, rows: NDArray[np.intp], others: "Candidates") -> "Candidates":
        """These candidates, with those of m records replaced by others'"""
        parts = [part.copy() for part in self.parts]
        for part, other in zip(parts, others.parts, strict=True):
            part[rows] = other
        return Candidates(*parts)

    def flatten(self) -> "Candidates":
        """c candidates of n records as one candidate of n * c records"""
        return Candidates(*(part.reshape(-1, 1, *part.shape[2:]) for part in self.parts))

    def unflatten(self, count: int) -> "Candidates":
        """The reverse of `flatten`, for n = count records"""
        return Candidates(*(part.reshape(count, -1, *part.shape[2:]) for part in self.parts))

    def beside(self, others: "Candidates") -> "Candidates":
        pairs = zip(self.parts, others.parts, strict=True)
        return Candidates(*(np.concatenate([mine, theirs], axis=1) for mine, theirs in pairs))

    @property
    def parts(self) -> tuple[Records, Encoded, Floats, Floats, Floats]:
        return self.records, self.points, self.cost, self.agreement, self.density


def measure(model: RecourseModel, records: Records, target: Targets, origin: Encoded) -> Candidates:
    """records (n, c, F) decoded, target (n,), origin (n, D) -> the candidates as they are reported: encoded again"""
    points, each = _points(model, records), records.shape[1]
    return _candidates(records, points, origin, score_points(model, points, np.repeat(target, each)))


def measure_with_slopes(
    model: RecourseModel, records: Records, target: Targets, origin: Encoded
) -> tuple[Candidates, Slopes]:
    """As `measure`, with the slopes at the n * c points, those of one record beside each other"""
    points, each = _points(model, records), records.shape[1]
    scores, slopes = score_with_slopes(model, points, np.repeat(target, each))
    return _candidates(records, points, origin, scores), slopes


def _points(model: RecourseModel, records: Records) -> Encoded:
    """records (n, c, F) -> (n * c, D)"""
    return model.encoder.encode(records.reshape(-1, records.shape[2]))


def _candidates(records: Records, points: Encoded, origin: Encoded, scores: Scores) -> Candidates:
    shape = records.shape[:2]
    return Candidates(
        records,
        points.reshape(*shape, -1),
        cost(points, np.repeat(origin, shape[1], axis=0)).reshape(shape),
        scores.agreement.reshape(shape),
        scores.density.reshape(shape),
    )


def generate(model: RecourseModel, target: Targets, allowed: Allowed, count: int, seed: int) -> Candidates:
    """`count` candidates for each record of allowed.origin (n, F), and some on the ways to the model's anchors.

    The perturbations depend on the seed alone, not on the record's place in the batch; the first start is the record.
    """
    return measure(model, _landings(model, target, allowed, count, seed), target, model.encoder.encode(allowed.origin))


def generate_with_own(
    model: RecourseModel, target: Targets, allowed: Allowed, count: int, seed: int
) -> tuple[Candidates, Floats]:
    """What `generate` does, and the expected agreement with each record as it is (n,), scored along with them"""
    landed = _landings(model, target, allowed, count, seed)
    everyone = np.concatenate([landed, allowed.origin[:, None]], axis=1)
    measured = measure(model, everyone, target, model.encoder.encode(allowed.origin))
    return Candidates(*(part[:, :-1] for part in measured.parts)), measured.agreement[:, -1]


def _landings(model: RecourseModel, target: Targets, allowed: Allowed, count: int, seed: int) -> Records:
    """Where the paths of the candidates end, and points on the ways to the nearest anchors, decoded (n, c, F)"""
    ends = np.empty((len(allowed.origin) * count, model.encoder.width))
    for rows, path in paths(model, target, allowed, count, seed):
        ends[rows] = path.end[: rows.stop - rows.start].cpu().numpy()
    decoded = model.encoder.decode(ends, allowed=allowed.repeat(count))
    landed = decoded.reshape(len(allowed.origin), count, -1)
    return np.concatenate([landed, approach(model.anchors, model.encoder, target, allowed)], axis=1)


def paths(
    model: RecourseModel, target: Targets, allowed: Allowed, count: int, seed: int
) -> Iterator[tuple[slice, Path]]:
    """The paths of n * count candidates, those of a record beside each other: rows of them, and their padded paths"""
    origin, width = model.encoder.encode(allowed.origin), model.encoder.width
    spread = np.random.default_rng(seed).normal(0.0, model.config.generator.perturbation, (count, width))
    spread[0] = 0.0
    low, high = math.log(model.config.loss.cost_low), math.log(model.config.loss.cost_high)
    log_costs = np.linspace(low, high, count)
    box = encoded_box(model.encoder, allowed)
    movable = allowed.movable[:, model.encoder.feature_of_column]
    for rows in chunks(len(origin) * count):
        owner = np.arange(rows.start, rows.stop) // count
        draw = np.arange(rows.start, rows.stop) % count
        request = _request(
            model, origin[owner], target[owner], log_costs[draw], movable[owner], box.lower[owner], box.upper[owner]
        )
        start = request.point + padded(_float(model, spread[draw]))
        with torch.inference_mode():
            path = solve(model.velocity, request, start, model.config.flow)
        yield rows, path


def _request(
    model: RecourseModel,
    point: Encoded,
    target: Targets,
    log_cost: Floats,
    movable: NDArray[np.bool_],
    lower: Encoded,
    upper: Encoded,
) -> Request:
    """Padded tensors of the rows."""
    device = device_of(model)
    return Request(
        point=padded(_float(model, point)),
        target=padded(torch.from_numpy(target).to(device)),
        log_cost=padded(_float(model, log_cost)),
        movable=padded(torch.from_numpy(movable).to(device)),
        lower=padded(_float(model, lower)),
        upper=padded(_float(model, upper)),
    )


def _float(model: RecourseModel, values: Floats) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32)).to(device_of(model))
