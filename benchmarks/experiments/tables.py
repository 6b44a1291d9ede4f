"""Means over the seeds beside the paper, and the page of one experiment with its table in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from benchmarks.experiments.experiment import Experiment, Measure, Row
from benchmarks.experiments.published import PAPER, Figure
from benchmarks.quality.summary import Spread, spread

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


SIGNS = {"beats": "▲ beats", "matches": "≈ matches", "falls short": "▼ falls short"}
LEGEND = (
    "▲ *beats*: the mean, as printed, is as good as the paper's or better. ≈ *matches*: so, with one standard "
    "deviation of ours granted. ▼ *falls short*: neither. Figures are means ± population standard deviations over the "
    "seeds; (paper: …) is what the paper reports in that place."
)


def write_page(experiment: Experiment, rows: Sequence[Row], how: str) -> str:
    """The whole page; `how` says what was run"""
    head = f"# {experiment.title}\n\nPaper: {experiment.place}. {how}\n\n{experiment.about}\n\n{LEGEND}\n"
    picture = f"\n![{experiment.title}]({experiment.name}.png)\n"
    return head + write_table(experiment, rows) + write_notes(rows) + picture


def how_it_ran(experiment: Experiment, rows: Sequence[Row], quick: bool) -> str:
    """A sentence for the page: which command, which seeds"""
    seeds = ", ".join(str(seed) for seed in sorted({row.seed for row in rows}))
    mode = "Quick run (--quick: few records, a training cut short)" if quick else "Full run"
    missing = [name for name in experiment.scope(quick).datasets if name not in {row.dataset for row in rows}]
    missing += [name for name in experiment.scope(quick).variants if name not in {row.variant for row in rows}]
    lacking = f" Not run: {', '.join(missing)}." if missing else ""
    return f"{mode}, seeds {seeds}, by `python -m benchmarks.experiments {experiment.name}`.{lacking}"


def write_table(experiment: Experiment, rows: Sequence[Row]) -> str:
    names = [measure.name for measure in experiment.measures]
    lines = [("data set", "variant", "seeds", *names)]
    for dataset, variant in dict.fromkeys((row.dataset, row.variant) for row in rows):
        cells = cells_of(experiment, rows, dataset, variant)
        seeds = max((cell.seeds for cell in cells if cell is not None), default=0)
        lines.append((dataset, variant, str(seeds), *(write_cell(cell) for cell in cells)))
    return markdown_table(lines)


def cells_of(experiment: Experiment, rows: Sequence[Row], dataset: str, variant: str) -> list[Cell | None]:
    paper = PAPER.get(experiment.name, {})
    return [
        summarise(rows, dataset, variant, measure, paper.get((dataset, variant, measure.name)))
        for measure in experiment.measures
    ]


def write_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    digits = cell.measure.digits
    ours = f"{cell.ours.mean:.{digits}f}" + (f" ± {cell.ours.std:.{digits}f}" if cell.seeds > 1 else "")
    if cell.paper is None:
        return ours
    beside = f"{ours} (paper: {cell.paper})"
    return beside if cell.mark is None else f"{beside} {SIGNS[cell.mark]}"


def write_notes(rows: Sequence[Row]) -> str:
    """What the methods have to say of their runs, each note once"""
    notes = dict.fromkeys(f"- {row.variant}: {row.note}" for row in rows if row.note)
    return "\n" + "\n".join(notes) + "\n" if notes else ""


def markdown_table(lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(lines[0])
    return "\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in (lines[0], rule, *lines[1:])) + "\n"
