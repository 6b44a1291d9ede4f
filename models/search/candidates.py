"""Candidates of a search (paper, Algorithm 2; METHOD.md, sections 5 and 6.2).

N paths of the flow for each record, from perturbed starts, at values of lambda_cost spread over the range of the
training. Their endpoints are decoded, and measured as they are reported: on the decoded record, encoded again.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..arrays import Encoded, Floats, Records, Targets
from ..model import RecourseModel
from ..networks.batching import BLOCK, chunks, groups, padded
from ..networks.ode import integrate_end
from ..networks.velocity import Request
from ..space.anchors import Anchors, approach
from ..space.constraints import encoded_bounds
from ..space.encoding import Encoder, cost
from ..space.feasible import FeasibleSet
from .scoring import LogitGradient, Scores, score_points, score_with_gradients

AHEAD = 2 * BLOCK
"""The gradients at up to so many points are computed with their scores."""
Endpoints = NDArray[np.floating[Any]]
"""(n, c, D) points that are not decoded yet; single precision is enough, since decoding takes them to a grid."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """c candidates for each of n records: records (n, c, F), points (n, c, D); all others (n, c).

    cost     the distance from the record, each feature by its weight
    allowed  whether no rule between features is broken, and no more changes than may change
    """

    records: Records
    points: Encoded
    cost: Floats
    agreement: Floats
    density: Floats
    allowed: NDArray[np.bool_]

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
    def parts(self) -> tuple[NDArray[Any], ...]:
        return self.records, self.points, self.cost, self.agreement, self.density, self.allowed


def measure(
    model: RecourseModel, records: Records, target: Targets, feasible: FeasibleSet, origin: Encoded | None = None
) -> Candidates:
    """records (n, c, F) decoded, target (n,) -> the candidates as they are reported: by the rules, and encoded again

    origin (n, D): the encoded feasible.origin, where it is known already
    """
    settled, each = feasible.settle(records), records.shape[1]
    points = _points(model, settled[0])
    scores = score_points(model, points, np.repeat(target, each))
    return _candidates(model.encoder, settled, points, feasible, origin, scores)


def measure_few(
    model: RecourseModel, records: Records, target: Targets, feasible: FeasibleSet, origin: Encoded | None = None
) -> tuple[Candidates, LogitGradient | None]:
    """As `measure`; for few candidates with the gradients at the n * c points, those of one record beside each other

    Local search wants them next. For few they cost next to nothing; for many, most would not be used.
    """
    if len(records) * records.shape[1] > AHEAD:
        return measure(model, records, target, feasible, origin), None
    settled, each = feasible.settle(records), records.shape[1]
    points = _points(model, settled[0])
    scores, gradients = score_with_gradients(model, points, np.repeat(target, each))
    return _candidates(model.encoder, settled, points, feasible, origin, scores), gradients


def _points(model: RecourseModel, records: Records) -> Encoded:
    """records (n, c, F) -> (n * c, D)"""
    return model.encoder.encode(records.reshape(-1, records.shape[2]))


def _candidates(
    encoder: Encoder,
    settled: tuple[Records, NDArray[np.bool_]],
    points: Encoded,
    feasible: FeasibleSet,
    origin: Encoded | None,
    scores: Scores,
) -> Candidates:
    records, allowed = settled
    shape = records.shape[:2]
    start = np.repeat(encoder.encode(feasible.origin) if origin is None else origin, shape[1], axis=0)
    hard = 1.0 if feasible.weights is None else np.repeat(column_weights(encoder, feasible), shape[1], axis=0)
    return Candidates(
        records,
        points.reshape(*shape, points.shape[1]),
        cost(points * hard, start * hard).reshape(shape),
        scores.agreement.reshape(shape),
        scores.density.reshape(shape),
        allowed,
    )


def column_weights(encoder: Encoder, feasible: FeasibleSet) -> Floats:
    """The weight of each encoded column (n, D), that of its feature"""
    if feasible.weights is None:
        return np.ones((len(feasible), encoder.width))
    weights: Floats = feasible.weights[:, encoder.feature_of_column]
    return weights


def generate(
    model: RecourseModel,
    target: Targets,
    feasible: FeasibleSet,
    count: int,
    seed: int,
) -> Candidates:
    """`count` candidates for each record of feasible.origin (n, F), and some on the ways to the model's anchors.

    The perturbations depend on the seed alone, not on the record's place in the batch; the first start is the record.
    """
    return score_endpoints(model, endpoints(model, target, feasible, count, seed), target, feasible)


def score_endpoints(model: RecourseModel, points: Endpoints, target: Targets, feasible: FeasibleSet) -> Candidates:
    """What points (n, c, D) stand for, measured"""
    return measure(model, decode_points(model.encoder, points, feasible), target, feasible)


def generate_with_origin(
    model: RecourseModel, target: Targets, feasible: FeasibleSet, count: int, seed: int
) -> tuple[Candidates, Floats, LogitGradient | None]:
    """What `generate` does, and the expected agreement with each record as it is (n,), scored along with them

    For few candidates also the gradients there (n * c), as `measure_few` gives them.
    """
    points = endpoints(model, target, feasible, count, seed)
    landed = decode_points(model.encoder, points, feasible)
    everyone = np.concatenate([landed, feasible.origin[:, None]], axis=1)
    measured, gradients = measure_few(model, everyone, target, feasible)
    if gradients is not None:
        gradients = gradients.at(np.arange(measured.cost.size).reshape(measured.cost.shape)[:, :-1].ravel())
    return Candidates(*(part[:, :-1] for part in measured.parts)), measured.agreement[:, -1], gradients


def endpoints(model: RecourseModel, target: Targets, feasible: FeasibleSet, count: int, seed: int) -> Endpoints:
    """Where the paths of the candidates end, and points on the ways to the nearest anchors, not decoded (n, c, D)"""
    anchors = model.anchors if model.config.search.use_anchors else Anchors.none(model.encoder.width)
    ways = approach(anchors, model.encoder, target, feasible, model.config.search.anchors)
    points = np.empty((len(ways), count + ways.shape[1], ways.shape[2]), dtype=np.float32)
    points[:, count:] = ways
    for rows, begin in path_starts(model, target, feasible, count, seed):
        with torch.inference_mode():
            ends = integrate_end(model.velocity, begin.request, begin.start, model.config.flow, begin.embedded)
        points[rows, :count] = ends[:, :count].cpu().numpy()
    return points


def decode_points(encoder: Encoder, points: Endpoints, feasible: FeasibleSet) -> Records:
    """points (n, c, D) -> the records that they stand for, each within what its owner may become (n, c, F)"""
    count, each, width = points.shape
    flat = points.reshape(count * each, width).astype(np.float64)
    return encoder.decode(flat, feasible=feasible.repeat(each)).reshape(count, each, -1)


@dataclass(frozen=True, eq=False)
class PathStart:
    """Where N paths of each of R records begin: start (R, N, D), the requests, and their embedding (R, 1, E)."""

    request: Request
    start: torch.Tensor
    embedded: torch.Tensor


def path_starts(
    model: RecourseModel, target: Targets, feasible: FeasibleSet, count: int, seed: int
) -> Iterator[tuple[slice, PathStart]]:
    """Some of n records at a time: where their paths begin, `count` for each and a few more that fill up a block"""
    low, high = math.log(model.config.loss.cost_low), math.log(model.config.loss.cost_high)
    random_spread = np.random.default_rng(seed).normal(
        0.0, model.config.generator.perturbation, (count, model.encoder.width)
    )
    random_spread[0] = 0.0
    spread, log_costs = _float(model, random_spread), _float(model, np.linspace(low, high, count))
    requests = _requests(model, target, feasible)
    with torch.inference_mode():
        embedded = torch.cat([model.velocity.embed(requests.rows(part)) for part in chunks(len(requests.target))])
    for rows, paths in groups(len(target), count):
        drawn = torch.arange(paths, device=spread.device).clamp_(max=count - 1)
        with torch.inference_mode():
            request = requests.rows(rows).for_paths(log_costs[drawn])
            begin = PathStart(request, request.point + spread[drawn], embedded[rows, None])
        yield rows, begin


def _requests(model: RecourseModel, target: Targets, feasible: FeasibleSet) -> Request:
    """The requests of the records, padded; their lambda_cost is still to be set."""
    device, bounds = model.device, encoded_bounds(model.encoder, feasible)
    movable = feasible.movable[:, model.encoder.feature_of_column]
    return Request(
        point=padded(_float(model, model.encoder.encode(feasible.origin))),
        target=padded(torch.from_numpy(target).to(device)),
        log_cost=padded(_float(model, np.zeros(len(target)))),
        movable=padded(torch.from_numpy(movable).to(device)),
        lower=padded(_float(model, bounds.lower)),
        upper=padded(_float(model, bounds.upper)),
    )


def _float(model: RecourseModel, values: Floats) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32)).to(model.device)
