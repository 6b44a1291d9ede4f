"""Means over the seeds, and how they stand beside the paper: computed, never typed in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from benchmarks.experiments.experiment import Measure, Row
from benchmarks.experiments.published import Figure
from benchmarks.quality_summary import Spread, spread

Mark: TypeAlias = Literal["beats", "matches", "falls short"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure of one variant on one data set: ours over the seeds, the paper's, and the mark."""

    measure: Measure
    ours: Spread
    seeds: int
    paper: Figure | None

    @property
    def mark(self) -> Mark | None:
        """Beats: at least as good, as a mean, as printed. Matches: so, with one standard deviation of ours granted."""
        if self.paper is None or self.measure.better == "neither":
            return None
        sign = 1.0 if self.measure.better == "higher" else -1.0
        if self._lead(sign, 0.0) >= 0:
            return "beats"
        return "matches" if self._lead(sign, self.ours.std) >= 0 else "falls short"

    def _lead(self, sign: float, granted: float) -> float:
        """How far ours is ahead, to the digits that are printed"""
        assert self.paper is not None
        digits = self.measure.digits
        return sign * (round(self.ours.mean + sign * granted, digits) - round(self.paper.value, digits))


def summarise(rows: Sequence[Row], dataset: str, variant: str, measure: Measure, paper: Figure | None) -> Cell | None:
    """None where nothing was measured"""
    values = [
        row.values[measure.name]
        for row in rows
        if row.dataset == dataset and row.variant == variant and measure.name in row.values
    ]
    return Cell(measure, spread(values), len(values), paper) if values else None


def mean_of(rows: Sequence[Row], dataset: str, variant: str, measure: str) -> float | None:
    cell = summarise(rows, dataset, variant, Measure(measure), None)
    return None if cell is None else cell.ours.mean


def mean_curve(rows: Sequence[Row], dataset: str, variant: str, name: str) -> list[float]:
    """The mean over the seeds, point by point; empty where there is none"""
    chosen = [row for row in rows if (row.dataset, row.variant) == (dataset, variant)]
    curves = [row.curves[name] for row in chosen if name in row.curves]
    return [sum(points) / len(points) for points in zip(*curves, strict=True)]
