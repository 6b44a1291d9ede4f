"""The rows of the quality benchmark, their means over the seeds, and what these say beside the paper and the oracle."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from benchmarks.store import made_from, read_rows, write_rows
from models.ensemble.recipes import Mode
from models.evaluation.evaluation import Method, Published, Quality

QUALITY_FILE = "quality.json"
FRONTIER_FILE = "quality-frontier.json"

Mark: TypeAlias = Literal["beats", "matches within one std", "falls short"]

UNANIMITY_WANTED = 0.95
COST_ALLOWED = 1.1


@dataclass(frozen=True, slots=True)
class Job:
    """One run: the seed decides the split and everything that is trained; `limit` is how many test records at most."""

    dataset: str
    seed: int
    ensemble: Mode
    limit: int


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One cost weight (price) on the test split: what the surrogate's search then costs and how well it holds."""

    price: float
    cost: float
    validity: float
    unanimity: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run measured: the three methods, and the frontier of the first."""

    qualities: tuple[Quality, ...]
    frontier: tuple[MeasuredPoint, ...]


@dataclass(frozen=True, slots=True)
class QualityRow:
    """One method in one run."""

    job: Job
    quality: Quality


@dataclass(frozen=True, slots=True)
class FrontierRow:
    """One setting of the dial in one run."""

    job: Job
    point: MeasuredPoint


class Store:
    """The rows of all runs; a run that is put again takes the place of what the same data set and seed had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        qualities, frontier = read_rows(folder / QUALITY_FILE), read_rows(folder / FRONTIER_FILE)
        self.qualities = [QualityRow(made_from(Job, row), made_from(Quality, row)) for row in qualities]
        self.frontier = [FrontierRow(made_from(Job, row), made_from(MeasuredPoint, row)) for row in frontier]

    def finished(self, job: Job) -> bool:
        return any(row.job == job for row in self.qualities)

    def put(self, job: Job, outcome: Outcome) -> None:
        """Keep a run; quality.json is written last, because it says what is finished."""
        self.qualities = [row for row in self.qualities if not _same_place(row.job, job)]
        self.frontier = [row for row in self.frontier if not _same_place(row.job, job)]
        self.qualities += [QualityRow(job, quality) for quality in outcome.qualities]
        self.frontier += [FrontierRow(job, point) for point in outcome.frontier]
        write_rows(self.folder / FRONTIER_FILE, (asdict(row.job) | asdict(row.point) for row in self.frontier))
        write_rows(self.folder / QUALITY_FILE, (asdict(row.job) | asdict(row.quality) for row in self.qualities))


def _same_place(one: Job, other: Job) -> bool:
    return (one.dataset, one.seed) == (other.dataset, other.seed)


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
