"""The limit: what a search that may ask the black boxes as often as it likes finds (METHOD.md, section 8).

It is a yardstick, not a proof: the nearest training record that all models already accept is brought back towards the
applicant, all numbers together and then feature by feature, as long as nobody changes his mind. Where every feature is
categorical, every change of one or two features is tried as well, and there the cheapest is exact.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Encoded, Floats, Records, Targets
from ..config import OracleConfig
from ..data.grid import snap
from ..ensemble.meter import QueryMeter
from ..ensemble.protocol import Ensemble
from ..ensemble.votes import agreement
from ..errors import DataError, QueryLimitError
from ..space.encoding import Encoder, cost
from ..space.feasible import FeasibleSet

ROWS = 10_000
"""Records that are decoded at once."""
SAME = 1e-9
Counts = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class OracleAnswers:
    """records (n, F) decoded, agreement (n,) of the ensemble with the target, and the records asked for all of them."""

    records: Records
    agreement: Floats
    queries: int


def oracle(
    ensemble: Ensemble,
    encoder: Encoder,
    training: Records,
    feasible: FeasibleSet,
    target: Targets,
    config: OracleConfig | None = None,
    labels: Targets | None = None,
) -> OracleAnswers:
    """training (t, F), its labels (t,) if known; answers to allowed.origin (n, F) with target (n,), as constrained

    Where no training record has the whole ensemble, the most agreeing one is brought back at the agreement it has.
    With labels, records of the target class are tried first: a rare class has none among the nearest of all.
    """
    if len(training) == 0:
        raise DataError("The oracle starts from training records, and there are 0; give at least 1.")
    config = config or OracleConfig()
    asker = _Asker(QueryMeter(ensemble, config.queries), encoder, target, feasible)
    current = _nearest_agreeing(asker, training, config, labels)
    active = np.arange(len(target))
    for _ in range(config.rounds):
        if not len(active):
            break
        before = current.cost[active]
        _shorten(asker, current, active, config)
        _revert(asker, current, active)
        active = active[current.cost[active] < before - SAME]
    if all(feature.is_categorical for feature in encoder.schema.features):
        _take_exact(asker, current, config)
    return OracleAnswers(current.records, current.agreement, asker.meter.spent)


class _Current:
    """The answers as they stand: records (n, F), agreement (n,), cost (n,)."""

    def __init__(self, records: Records, share: Floats, distance: Floats) -> None:
        self.records, self.agreement, self.cost = records, share, distance


@dataclass(frozen=True, eq=False)
class _Asker:
    """The ensemble that is asked, the targets, and what may change: target (n,), allowed n rows."""

    meter: QueryMeter
    encoder: Encoder
    target: Targets
    feasible: FeasibleSet

    def ask(self, records: Records, rows: NDArray[np.intp]) -> Floats:
        """records (r, F), candidates for the cases rows (r,) -> the agreement with their targets (r,)"""
        return agreement(self.meter.predict_proba(records), self.target[rows])

    def cost(self, records: Records, rows: NDArray[np.intp]) -> Floats:
        """records (r, F) -> their distance from the cases rows (r,)"""
        return cost(self.encoder.encode(records), self.encoder.encode(self.feasible.origin[rows]))

    def keep_cheaper(self, current: _Current, rows: NDArray[np.intp], trial: Records) -> NDArray[np.bool_]:
        """Take trial (r, F) where it is no dearer and as many models agree -> where that is so (r,)"""
        distance = self.cost(trial, rows)
        cheaper = np.flatnonzero(distance < current.cost[rows] - SAME)
        kept = np.zeros(len(rows), dtype=np.bool_)
        try:
            share = self.ask(trial[cheaper], rows[cheaper])
        except QueryLimitError:
            return kept
        kept[cheaper] = share >= current.agreement[rows[cheaper]] - SAME
        taken = rows[kept]
        current.records[taken], current.cost[taken] = trial[kept], distance[kept]
        current.agreement[taken] = share[kept[cheaper]]
        return kept


def _nearest_agreeing(asker: _Asker, training: Records, config: OracleConfig, labels: Targets | None) -> _Current:
    """The nearest of training (t, F) that, brought within the constraints, all accept; else the most agreeing one."""
    encoder, feasible = asker.encoder, asker.feasible
    points, count = encoder.encode(training), len(feasible)
    distances = _distances(encoder, points, feasible)
    if labels is not None:
        distances = distances + np.where(labels == asker.target[:, None], 0.0, distances.max())
    order = np.argsort(distances, axis=1, kind="stable")[:, : config.neighbours]
    current = _Current(feasible.origin.copy(), np.full(count, -1.0), np.full(count, np.inf))
    start, size = 0, config.first_wave
    while start < order.shape[1]:
        pending = np.flatnonzero(current.agreement < 1.0 - SAME)
        for first in range(0, len(pending), max(1, ROWS // size)):
            some = pending[first : first + max(1, ROWS // size)]
            if start and asker.meter.spent >= config.start_queries:
                return current
            try:
                _try_neighbours(asker, current, some, points[order[some, start : start + size]])
            except QueryLimitError:
                if start == 0:
                    raise
                return current
        start, size = start + size, 4 * size
    return current


def _try_neighbours(asker: _Asker, current: _Current, cases: NDArray[np.intp], points: Encoded) -> None:
    """Ask for points (p, w, D), w for each of cases (p,), and take the most agreeing, among equals the cheapest."""
    count, each, width = points.shape
    rows = np.repeat(cases, each)
    trial = asker.encoder.decode(points.reshape(-1, width), feasible=asker.feasible.rows(rows))
    share, distance = asker.ask(trial, rows), asker.cost(trial, rows)
    best = np.lexsort((distance.reshape(count, each), -share.reshape(count, each)), axis=1)[:, 0]
    chosen = np.arange(count) * each + best
    chosen = chosen[share[chosen] > current.agreement[cases] + SAME]
    taken = rows[chosen]
    current.records[taken], current.agreement[taken] = trial[chosen], share[chosen]
    current.cost[taken] = distance[chosen]


def _distances(encoder: Encoder, points: Encoded, feasible: FeasibleSet) -> Floats:
    """The squared distance of each case from points (t, D), over the columns that may move -> (n, t)"""
    origin = encoder.encode(feasible.origin)
    movable = feasible.movable[:, encoder.feature_of_column].astype(np.float64)
    squares: Floats = movable @ (points**2).T - 2 * (movable * origin) @ points.T
    squares += (movable * origin**2).sum(axis=1)[:, None]
    return squares


def _shorten(asker: _Asker, current: _Current, active: NDArray[np.intp], config: OracleConfig) -> None:
    """A line search: all numbers go the same share of their way; a grid of shares, then halving below the least."""
    far = current.records[active].copy()
    low, high = np.zeros(len(active)), np.ones(len(active))
    for fraction in np.arange(1, config.fractions) / config.fractions:
        rows = np.flatnonzero(high == 1.0)
        kept = asker.keep_cheaper(current, active[rows], _part_way(asker, far[rows], active[rows], fraction))
        low[rows[~kept]], high[rows[kept]] = fraction, fraction
    for _ in range(config.halvings):
        middle = (low + high) / 2
        kept = asker.keep_cheaper(current, active, _part_way(asker, far, active, middle[:, None]))
        high, low = np.where(kept, middle, high), np.where(kept, low, middle)


def _part_way(asker: _Asker, far: Records, rows: NDArray[np.intp], share: float | Floats) -> Records:
    """far (r, F) with every number at a share, scalar or (r, 1), of its way from the applicant's value."""
    encoder, feasible = asker.encoder, asker.feasible.rows(rows)
    own = np.where(np.isnan(feasible.origin), encoder.fill, feasible.origin)
    there = np.where(np.isnan(far), encoder.fill, far)
    step = np.array([feature.step for feature in encoder.schema.features])
    number = snap(np.clip(own + share * (there - own), feasible.lower, feasible.upper), step)
    number = np.clip(number, feasible.lower, feasible.upper)  # an end may be the applicant's own value, off the grid
    fixed = np.array([feature.is_categorical for feature in encoder.schema.features]) | ~feasible.movable
    return np.where(fixed | np.isnan(far), far, number)


def _revert(asker: _Asker, current: _Current, active: NDArray[np.intp]) -> None:
    """Put features back one by one, the one that costs most first, where as many models still agree."""
    encoder, origin = asker.encoder, asker.feasible.origin[active]
    moved = (encoder.encode(current.records[active]) - encoder.encode(origin)) ** 2
    share = np.stack([moved[:, where].sum(axis=1) for where in encoder.columns], axis=1)
    order = np.argsort(-share, axis=1, kind="stable")
    fits = asker.feasible.rows(active).own_fits()
    for position in range(order.shape[1]):
        feature = order[:, position]
        every = np.arange(len(active))
        rows = np.flatnonzero((share[every, feature] > 0) & fits[every, feature])
        if not len(rows):
            continue
        trial = current.records[active[rows]].copy()
        trial[np.arange(len(rows)), feature[rows]] = origin[rows, feature[rows]]
        asker.keep_cheaper(current, active[rows], trial)


@dataclass(frozen=True, eq=False)
class _Singles:
    """The S changes of one feature: feature (S,), level (S,), squares (n, S) their squared cost, inf if forbidden."""

    feature: Counts
    level: Counts
    squares: Floats


def _take_exact(asker: _Asker, current: _Current, config: OracleConfig) -> None:
    """Take the cheapest change of one or two categories that all models accept, where it costs less than the answer.

    All features are categorical. At first `pair_wave` changes of each record are asked, then twice as many each time.
    The search ends early where its next wave would pass the limit.
    """
    bound, origin = np.where(current.agreement < 1.0 - SAME, np.inf, current.cost), asker.feasible.origin
    singles = _singles(asker.encoder, asker.feasible)
    pairs = _pairs(singles)
    costs = np.sqrt(np.concatenate([singles.squares, singles.squares[:, pairs[0]] + singles.squares[:, pairs[1]]], 1))
    order = np.argsort(costs, axis=1, kind="stable")
    start, size, pending = 0, config.pair_wave, np.arange(len(origin))
    while len(pending) and start < costs.shape[1]:
        tried = order[pending, start : start + size]
        cheaper = costs[pending[:, None], tried] < bound[pending, None]
        rows = np.repeat(pending, cheaper.sum(axis=1))
        accepted = np.zeros(cheaper.shape, dtype=np.bool_)
        try:
            accepted[cheaper] = asker.ask(_apply(singles, pairs, origin[rows], tried[cheaper]), rows) >= 1.0
        except QueryLimitError:
            return
        solved = accepted.any(axis=1)
        done, change = pending[solved], tried[solved, accepted.argmax(axis=1)[solved]]
        current.records[done] = _apply(singles, pairs, origin[done], change)
        current.cost[done], current.agreement[done] = costs[done, change], 1.0
        pending = pending[~solved & cheaper.all(axis=1)]
        start, size = start + size, 2 * size


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
    owner = singles.feature
    pairs = [(one, other) for one, other in combinations(range(len(owner)), 2) if owner[one] != owner[other]]
    return np.array(pairs, dtype=np.intp).reshape(-1, 2).T


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
