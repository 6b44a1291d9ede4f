"""What an experiment is: data sets and variants, the figures of one run of one variant, and how they are drawn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from benchmarks.experiments.bench import Bench

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
