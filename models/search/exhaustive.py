"""Every record that one applicant may become, where these are few: nothing is missed, and "none" is a proof.

The search looks at a few hundred candidates. Where rules, limits and grids leave a record only so many possibilities,
all of them are listed, completed by the policy, and scored. An applicant who has no way then has none as far as the
surrogate can tell, and one for whom the policy leaves nothing at all has none whatever a model says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Records, Targets
from ..data.grid import snap
from ..data.schema import Schema
from ..model import RecourseModel
from ..space.feasible import FeasibleSet, same
from .candidates import Candidates, measure
from .selection import REACHED
from .verification import Verification


def reachable(schema: Schema, feasible: FeasibleSet, most_points: int) -> Records | None:
    """All that one record (feasible has one row) may become, by itself and by the rules (p, F); the record itself is
    not among them. None where there are more than most_points, before what the rules forbid is taken away."""
    hands, horizon = feasible.by_hand(), int(feasible.horizon()[0])
    values = [_values(schema, feasible, j) if hands[j] else np.empty(0) for j in range(len(schema.features))]
    movable = [j for j, each in enumerate(values) if len(each)]
    forced = set(np.flatnonzero(~feasible.own_fits()[0] & hands).tolist())
    most = int(min(feasible.limits()[0], len(movable) + 1))
    if _count([*(len(values[j]) for j in movable), horizon], most) > most_points:
        return None
    found, waits = [np.empty((0, len(schema.features)))], [np.empty(0, dtype=np.intp)]
    for size in range(most + 1):
        months = np.arange(horizon + 1) if size < most else np.zeros(1, dtype=np.intp)
        for chosen in combinations(movable, size):
            if forced <= set(chosen):
                columns = [*(values[j] for j in chosen), months]
                grid = np.stack(np.meshgrid(*columns, indexing="ij"), axis=-1).reshape(-1, size + 1)
                records = np.repeat(feasible.origin, len(grid), axis=0)
                records[:, list(chosen)] = grid[:, :-1]
                found.append(records)
                waits.append(grid[:, -1].astype(np.intp))
    everything, fits = feasible.settle(np.concatenate(found)[None], np.concatenate(waits)[None])
    kept = np.unique(everything[0][fits[0]], axis=0)
    unchanged = same(kept, feasible.origin).all(axis=1)
    found_records: Records = kept[~unchanged]
    return found_records


def _values(schema: Schema, feasible: FeasibleSet, j: int) -> Floats:
    """The other values that feature j of the one record may take"""
    feature, own = schema.features[j], feasible.origin[0, j]
    if not feasible.movable[0, j]:
        return np.empty(0)
    if feature.is_categorical:
        values = np.flatnonzero(feasible.levels[0, j]).astype(np.float64)
    else:
        low, high = feasible.lower[0, j], feasible.upper[0, j]
        first, last = np.ceil(low / feature.step - 1e-6), np.floor(high / feature.step + 1e-6)
        if last - first > MOST_VALUES:
            return np.full(MOST_VALUES, np.nan)
        values = np.asarray(snap(np.arange(first, last + 1) * feature.step, feature.step))
    others: Floats = values[values != own]
    return others


MOST_VALUES = 100_000
"""A number with more possible values is not listed: it alone is too many."""


def _count(sizes: list[int], most: int) -> float:
    """How many ways there are to change at most `most` features that have so many other values each"""
    ways = np.zeros(most + 1)
    ways[0] = 1.0
    for size in sizes:
        ways[1:] += ways[:-1] * size
    return float(ways[1:].sum())


@dataclass(frozen=True, eq=False)
class Listing:
    """What was listed for n records.

    points  (n,) how many records each may become; 0 where that is none, -1 where it was not listed
    sure    (n,) the largest expected agreement among those that were not put to the ensemble, 0 where there is none
    """

    points: NDArray[np.intp]
    sure: Floats

    @classmethod
    def none(cls, count: int) -> "Listing":
        return cls(np.full(count, -1), np.zeros(count))


def best_of_all(
    model: RecourseModel,
    rows: NDArray[np.intp],
    target: Targets,
    feasible: FeasibleSet,
    chosen: Candidates,
    cost_weight: Floats,
    floor: float,
) -> tuple[Candidates, Listing]:
    """For those of `rows` (r,) that may become few records: the best of them at cost_weight (n,) in place of what was
    chosen (n, 1), those of expected agreement `floor` first; and what was listed"""
    listing = Listing.none(len(target))
    for row, every in _listed(model, rows, target, feasible, listing):
        value = every.agreement - cost_weight[row] * every.cost + REACHED * (every.agreement >= floor)
        listing.sure[row] = every.agreement.max()
        best = every.take(value.argmax(axis=1)[:, None])
        chosen = chosen.replace_rows(np.array([row]), best)
    return chosen, listing


def verify_all(model: RecourseModel, search: Verification, target: Targets, feasible: FeasibleSet) -> Listing:
    """Put what the still open records of a verified search may become to the ensemble, the surest first, where that is
    few records; as far as the queries go"""
    listing = Listing.none(len(target))
    rows = np.flatnonzero(~search.found & (search.limit > 0))
    for row, every in _listed(model, rows, target, feasible, listing):
        order = np.argsort(-every.agreement, axis=1, kind="stable")
        search.try_in_turn(np.array([row]), every.take(order[:, : int(search.limit[row])]))
        asked = search.heard(row)
        pairs = zip(every.agreement[0].tolist(), every.records[0], strict=True)
        listing.sure[row] = max((value for value, record in pairs if record.tobytes() not in asked), default=0.0)
    return listing


def _listed(
    model: RecourseModel, rows: NDArray[np.intp], target: Targets, feasible: FeasibleSet, listing: Listing
) -> Iterator[tuple[int, Candidates]]:
    """Each of `rows` (r,) that may become some records, but few: all of them, measured (1, p)"""
    for row in rows.tolist():
        alone = feasible.row(row)
        records = reachable(model.encoder.schema, alone, model.config.search.listed)
        if records is not None:
            listing.points[row] = len(records)
        if records is not None and len(records):
            yield row, measure(model, records[None], target[row : row + 1], alone)
