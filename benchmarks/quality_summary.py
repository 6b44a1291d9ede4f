"""Means and deviations over the seeds, and what they say beside the paper and beside the oracle."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from benchmarks.quality_store import FrontierRow, QualityRow
from models.evaluation.evaluation import MeasuredPoint, Method, Published, Quality

Mark: TypeAlias = Literal["beats", "matches within one std", "falls short"]

UNANIMITY_WANTED = 0.95
COST_ALLOWED = 1.1


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean and the (population) standard deviation over the seeds."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.std:.3f}"


@dataclass(frozen=True, slots=True)
class Summary:
    """One method on one data set, over its seeds."""

    qualities: tuple[Quality, ...]

    @property
    def seeds(self) -> int:
        return len(self.qualities)

    @property
    def validity(self) -> Spread:
        return spread(quality.validity for quality in self.qualities)

    @property
    def unanimity(self) -> Spread:
        return spread(quality.unanimity for quality in self.qualities)

    @property
    def cost(self) -> Spread:
        return spread(quality.cost for quality in self.qualities)


def spread(values: Iterable[float]) -> Spread:
    numbers = np.array(list(values))
    return Spread(float(numbers.mean()), float(numbers.std()))


def datasets_of(rows: Iterable[QualityRow], order: Iterable[str]) -> list[str]:
    """The data sets that have rows: those of `order` first, in its order."""
    present = {row.job.dataset for row in rows}
    known = [name for name in order if name in present]
    return known + sorted(present - set(known))


def summarise(rows: Iterable[QualityRow], dataset: str, method: Method) -> Summary:
    chosen = [row for row in rows if row.job.dataset == dataset and row.quality.method == method]
    return Summary(tuple(row.quality for row in sorted(chosen, key=lambda row: row.job.seed)))


def mean_frontier(rows: Iterable[FrontierRow], dataset: str) -> list[MeasuredPoint]:
    """The mean over the seeds at each price, the cheapest first."""
    chosen = [row.point for row in rows if row.job.dataset == dataset]
    points = []
    for price in sorted({point.price for point in chosen}, reverse=True):
        same = [point for point in chosen if point.price == price]
        cost, validity, unanimity = (
            float(np.mean(values))
            for values in zip(*((point.cost, point.validity, point.unanimity) for point in same), strict=True)
        )
        points.append(MeasuredPoint(price, cost, validity, unanimity))
    return points


def mark(ours: Summary, paper: Published) -> Mark:
    """Beats: at least the paper's validity at no higher cost, as means. Matches: so, with one deviation granted."""
    if ours.validity.mean >= paper.validity and ours.cost.mean <= paper.cost:
        return "beats"
    close = ours.validity.mean + ours.validity.std >= paper.validity and ours.cost.mean - ours.cost.std <= paper.cost
    return "matches within one std" if close else "falls short"


def reaches_the_limit(verified: Summary, limit: Summary) -> bool:
    """At least 0.95 of the oracle's unanimity at no more than 1.1 times its cost."""
    enough = verified.unanimity.mean >= UNANIMITY_WANTED * limit.unanimity.mean
    return enough and verified.cost.mean <= COST_ALLOWED * limit.cost.mean


def validity_at(frontier: Iterable[FrontierRow], dataset: str, cost: float) -> Spread | None:
    """The validity of the surrogate's search where it costs `cost`, between two settings of the dial on the test split

    None where there is no frontier. A frontier that ends before that cost counts with its end.
    """
    runs: dict[int, list[MeasuredPoint]] = {}
    for row in frontier:
        if row.job.dataset == dataset:
            runs.setdefault(row.job.seed, []).append(row.point)
    found = []
    for points in runs.values():
        ordered = sorted(points, key=lambda point: point.cost)
        costs, validities = [point.cost for point in ordered], [point.validity for point in ordered]
        found.append(float(np.interp(cost, costs, validities)))
    return spread(found) if found else None
