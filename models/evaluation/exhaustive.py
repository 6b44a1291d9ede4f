"""Every change of one or two categories, from the cheapest up, until all models accept."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Records, Targets
from ..ensemble.meter import QueryMeter
from ..ensemble.votes import agreement
from ..errors import QueryLimitError
from ..space.encoding import Encoder
from ..space.feasible import FeasibleSet

Counts = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CheapestChanges:
    """solved (n,): all models accept the change; then records (n, F) and cost (n,) are the cheapest such change."""

    solved: NDArray[np.bool_]
    records: Records
    cost: Floats


@dataclass(frozen=True, eq=False)
class _Singles:
    """The S changes of one feature: feature (S,), level (S,), squares (n, S) their squared cost, inf if forbidden."""

    feature: Counts
    level: Counts
    squares: Floats


def cheapest_changes(
    meter: QueryMeter, encoder: Encoder, feasible: FeasibleSet, target: Targets, bound: Floats, wave: int
) -> CheapestChanges:
    """The cheapest change of one or two features that all models accept, where it costs less than bound (n,)

    All features are categorical. At first `wave` changes of each record are asked, then twice as many each time. The
    search ends early where its next wave would pass the meter's limit.
    """
    singles = _singles(encoder, feasible)
    pairs = _pairs(singles)
    count = len(feasible)
    records, distance = feasible.origin.copy(), np.full(count, np.inf)
    costs = np.sqrt(np.concatenate([singles.squares, singles.squares[:, pairs[0]] + singles.squares[:, pairs[1]]], 1))
    order = np.argsort(costs, axis=1, kind="stable")
    start, size = 0, wave
    pending = np.arange(count)
    while len(pending) and start < costs.shape[1]:
        tried = order[pending, start : start + size]
        cheaper = costs[pending[:, None], tried] < bound[pending, None]
        rows = np.repeat(pending, cheaper.sum(axis=1))
        trial = _apply(singles, pairs, feasible.origin[rows], tried[cheaper])
        accepted = np.zeros(cheaper.shape, dtype=np.bool_)
        try:
            accepted[cheaper] = agreement(meter.predict_proba(trial), target[rows]) >= 1.0
        except QueryLimitError:
            break
        first = accepted.argmax(axis=1)
        solved = np.flatnonzero(accepted.any(axis=1))
        done, change = pending[solved], tried[solved, first[solved]]
        records[done], distance[done] = _apply(singles, pairs, feasible.origin[done], change), costs[done, change]
        pending = pending[~accepted.any(axis=1) & cheaper.all(axis=1)]
        start, size = start + size, 2 * size
    return CheapestChanges(np.isfinite(distance), records, distance)


def _singles(encoder: Encoder, feasible: FeasibleSet) -> _Singles:
    """One entry for each category of each feature; a record's own category is no change."""
    features, levels, squares = [], [], []
    origin = encoder.encode(feasible.origin)
    for j, feature in enumerate(encoder.schema.features):
        for level in range(len(feature.categories)):
            away = encoder.encode_feature(j, np.array(float(level))) - origin[:, encoder.columns[j]]
            possible = feasible.movable[:, j] & feasible.levels[:, j, level] & (feasible.origin[:, j] != level)
            features.append(j)
            levels.append(level)
            squares.append(np.where(possible, (away**2).sum(axis=1), np.inf))
    return _Singles(np.array(features), np.array(levels), np.stack(squares, axis=1))


def _pairs(singles: _Singles) -> Counts:
    """The pairs of changes to two different features -> (2, P)"""
    pairs = [pair for pair in combinations(range(len(singles.feature)), 2) if _differ(singles, pair)]
    return np.array(pairs, dtype=np.intp).reshape(-1, 2).T


def _differ(singles: _Singles, pair: tuple[int, int]) -> bool:
    return bool(singles.feature[pair[0]] != singles.feature[pair[1]])


def _apply(singles: _Singles, pairs: Counts, origin: Records, change: Counts) -> Records:
    """origin (r, F), change (r,): positions among the S single changes and the P pairs after them -> (r, F)"""
    records, rows = origin.copy(), np.arange(len(origin))
    alone = len(singles.feature)
    single = change < alone
    pair = np.maximum(change - alone, 0)
    both = pairs if pairs.shape[1] else np.zeros((2, 1), dtype=np.intp)
    first, second = np.where(single, change, both[0, pair]), np.where(single, change, both[1, pair])
    records[rows, singles.feature[first]] = singles.level[first]
    records[rows, singles.feature[second]] = singles.level[second]
    return records
