"""Anchors: made-up records for which nearly all jurors vote alike, kept with the model as places to head for.

The flow leads every start of a record to one region. Where the target class has several, another one may be nearer: the
search also tries the straight ways to the nearest anchors. An anchor is a point between classes or an end of the flow
that the jury voted on; none is a record of the training data.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Codes, Encoded
from ..config import AnchorConfig
from .constraints import encoded_bounds
from .encoding import Encoder
from .feasible import FeasibleSet


@dataclass(frozen=True, eq=False)
class Anchors:
    """points (a, D), encoded and decodable; the class (a,) that nearly all vote for there"""

    points: Encoded
    labels: Codes

    @classmethod
    def none(cls, width: int) -> "Anchors":
        return cls(np.empty((0, width)), np.empty(0, dtype=np.int64))


def choose_anchors(
    pool: Encoded,
    shares: NDArray[np.float32],
    points: Encoded,
    labels: Codes,
    columns: NDArray[np.bool_],
    random: np.random.Generator,
    config: AnchorConfig,
) -> Anchors:
    """Those of pool (p, D), with their shares (p, K) of votes, that are nearest to some records of other classes

    points (n, D), labels (n,) are the training split; columns (D,) may move.
    """
    chosen, width = [Anchors.none(points.shape[1])], points.shape[1]
    known = {row.tobytes() for row in points.astype(np.float32)}
    new = np.array([row.tobytes() not in known for row in pool.astype(np.float32)], dtype=np.bool_)
    for label in range(shares.shape[1]):
        sure = pool[new & (shares[:, label] >= config.sure)]
        seekers = random.permutation(np.flatnonzero(labels != label))[: config.seekers]
        if len(sure):
            nearest = _distances(points[seekers] * columns, sure * columns).argmin(axis=1)
            kept = sure[np.unique(nearest)]
            chosen.append(Anchors(kept, np.full(len(kept), label, dtype=np.int64)))
    stacked = np.concatenate([each.points for each in chosen]).reshape(-1, width)
    return Anchors(stacked, np.concatenate([each.labels for each in chosen]))


def approach(anchors: Anchors, encoder: Encoder, target: Codes, feasible: FeasibleSet, config: AnchorConfig) -> Encoded:
    """Points on the straight ways from allowed.origin (n, F) to its nearest anchors of target (n,), encoded (n, c, D)

    They lie in the box of what may change: where a way leads out of it, its points are moved to the edge.
    A class with fewer anchors than `nearest` repeats them, so that every record has as many.
    """
    origin = encoder.encode(feasible.origin)
    if not len(anchors.points):
        return np.empty((len(origin), 0, encoder.width))
    movable, nearest = feasible.movable[:, encoder.feature_of_column], config.nearest
    ends = np.repeat(origin[:, None], nearest, axis=1)
    for label in np.unique(target):
        rows, points = np.flatnonzero(target == label), anchors.points[anchors.labels == label]
        if len(points):
            order = _nearest(_masked_distances(origin[rows], points, movable[rows]), min(nearest, len(points)))
            ends[rows] = points[order[:, np.arange(nearest) % len(points)]]
    ways = origin[:, None, None] + np.array(config.fractions)[:, None] * (ends - origin[:, None])[:, :, None]
    bounds = encoded_bounds(encoder, feasible)
    points = ways.reshape(len(origin), nearest * len(config.fractions), -1)
    return np.clip(points, bounds.lower[:, None], bounds.upper[:, None])


def _nearest(distances: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """The positions (n, count) of the least of distances (n, a), of equal ones the first; distances are overwritten

    A few passes for the few that are wanted: sorting all would take longer.
    """
    rows, order = np.arange(len(distances)), np.empty((len(distances), count), dtype=np.intp)
    for position in range(count):
        order[:, position] = distances.argmin(axis=1)
        distances[rows, order[:, position]] = np.inf
    return order


def _distances(points: Encoded, others: Encoded) -> NDArray[np.float64]:
    """The squared distances (n, a), less the share that is the same for all others"""
    return np.asarray((others**2).sum(axis=1) - 2.0 * points @ others.T)


def _masked_distances(points: Encoded, others: Encoded, movable: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The squared distances (n, a) over the columns that may move (n, D), less the share that is the same for all

    Rounded to what a batch cannot change: the order of equally near anchors must not depend on the batch.
    """
    mask = movable.astype(np.float64)
    return np.asarray(np.round(mask @ (others**2).T - 2.0 * (mask * points) @ others.T, 9))
