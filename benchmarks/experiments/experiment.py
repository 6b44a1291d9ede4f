"""What an experiment is: data sets and variants, the figures of one run of one variant, and its rows on disk."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from benchmarks.experiments.bench import Bench
import json
from dataclasses import asdict

from benchmarks import store
from models.errors import ArtifactError

TIMES = "times.json"
Times: TypeAlias = dict[str, dict[str, float]]
"""The seconds by the clock of each experiment, by the number of workers."""
Better: TypeAlias = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a run, and which way is better."""

    name: str
    better: Better = "neither"
    digits: int = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one variant: figures by name, series of figures for the picture, and what a reader has to know."""

    values: Mapping[str, float]
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of a variant on a data set with a seed."""

    dataset: str
    seed: int
    variant: str
    values: Mapping[str, float]
    curves: Mapping[str, Sequence[float]]
    note: str


@dataclass(frozen=True, slots=True)
class Scope:
    """What is run: every variant on every data set."""

    datasets: tuple[str, ...]
    variants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One row of the paper's experiments.

    place   where the paper has it
    about   what the figures mean, for the reader of the page
    source  the experiment whose runs these figures are taken from; None where it has its own
    """

    name: str
    title: str
    place: str
    about: str
    full: Scope
    quick: Scope
    measures: tuple[Measure, ...]
    run: Callable[["Bench", str], Measured]
    draw: Callable[[Sequence[Row], Path], None]
    source: str | None = None

    @property
    def owner(self) -> str:
        """The experiment whose file holds the runs."""
        return self.source or self.name

    def scope(self, quick: bool) -> Scope:
        return self.quick if quick else self.full

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Those of its own data sets and variants, in its own order"""
        datasets, variants = self.full.datasets, self.full.variants
        extra = [name for name in dict.fromkeys(row.dataset for row in rows) if name not in datasets]
        order = {name: position for position, name in enumerate((*datasets, *([] if self.source else extra)))}
        chosen = [row for row in rows if row.dataset in order and row.variant in variants]
        return sorted(chosen, key=lambda row: (order[row.dataset], variants.index(row.variant), row.seed))


REAL = ("adult", "compas", "heloc", "blood")
SYNTHETIC = ("moons", "circles", "spirals", "chessboard")
VALIDITY, COST = Measure("validity", "higher"), Measure("cost", "lower")


class Rows:
    """The rows of one experiment; a quick run has its own folder, so that it never takes the place of a full one."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.json"
        self.rows = _read(self.path)

    def finished(self, dataset: str, seed: int, variant: str) -> bool:
        return any((row.dataset, row.seed, row.variant) == (dataset, seed, variant) for row in self.rows)

    def put(self, dataset: str, seed: int, variant: str, measured: Measured) -> None:
        """Keep a run; what the same data set, seed and variant had before goes"""
        place = (dataset, seed, variant)
        kept = [row for row in self.rows if (row.dataset, row.seed, row.variant) != place]
        self.rows = [*kept, Row(*place, measured.values, measured.curves, measured.note)]
        write_rows(self.path, self.rows)


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    store.write_rows(path, map(_rounded, rows))


def results_folder(results: Path, quick: bool) -> Path:
    return results / "paper" / ("quick" if quick else "full")


def add_time(folder: Path, name: str, seconds: float, workers: int) -> None:
    """Count the time by the clock that an experiment took, over all runs that brought it where it is"""
    times = read_times(folder)
    before = times.get(name, {}).get(str(workers), 0.0)
    times[name] = times.get(name, {}) | {str(workers): round(before + seconds, 1)}
    store.write_whole(folder / TIMES, json.dumps(times, indent=1) + "\n")


def forget_time(folder: Path, name: str) -> None:
    times = read_times(folder)
    if times.pop(name, None) is not None:
        store.write_whole(folder / TIMES, json.dumps(times, indent=1) + "\n")


def read_times(folder: Path) -> Times:
    path = folder / TIMES
    times: Times = json.loads(path.read_text()) if path.exists() else {}
    return times


def _rounded(row: Row) -> dict[str, object]:
    """Six digits: a curve is drawn, not computed with"""
    curves = {name: [float(f"{value:.6g}") for value in values] for name, values in row.curves.items()}
    return asdict(row) | {"curves": curves}


def _read(path: Path) -> list[Row]:
    try:
        return [Row(**row) for row in store.read_rows(path)]
    except TypeError as error:
        raise ArtifactError(f"'{path}' does not hold the rows of an experiment; delete it to start anew.") from error
