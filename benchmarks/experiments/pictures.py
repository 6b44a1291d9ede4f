"""Pictures that several experiments share: bars by variant, and lines over a setting."""

from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from benchmarks.experiments.experiment import Measure, Row
from benchmarks.experiments.published import PAPER
from benchmarks.experiments.tables import summarise

COLOURS = (
    *("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860"),
    *("#da8bc3", "#8c8c8c", "#ccb974", "#64b5cd", "#2f4b7c", "#1b7837"),
)
PAPER_COLOUR = "#222222"


def panels(count: int, columns: int = 4) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels"""
    columns = min(columns, count)
    height = -(-count // columns)
    figure = Figure(figsize=(4.0 * columns + 0.6, 3.2 * height + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(height, columns, squeeze=False).flatten().tolist()
    for spare in axes[count:]:
        spare.set_visible(False)
    return figure, axes[:count]


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def draw_bars(name: str, measures: Sequence[Measure], log: bool = False) -> Callable[[Sequence[Row], Path], None]:
    """A panel a data set and measure, a bar a variant with its deviation, the paper's figure as a mark"""

    def draw(rows: Sequence[Row], path: Path) -> None:
        datasets = list(dict.fromkeys(row.dataset for row in rows))
        figure, axes = panels(len(datasets) * len(measures))
        places = [(dataset, measure) for measure in measures for dataset in datasets]
        for axis, (dataset, measure) in zip(axes, places, strict=True):
            _bars(axis, rows, name, dataset, measure)
            if log:
                _log_scale(axis)
        save(figure, path)

    return draw


def _bars(axis: Axes, rows: Sequence[Row], name: str, dataset: str, measure: Measure) -> None:
    """A variant has its colour in every panel; one that has no figure has no place"""
    colours = dict(zip(dict.fromkeys(row.variant for row in rows), cycle(COLOURS), strict=False))
    shown: list[str] = []
    beside = ""
    for variant, colour in colours.items():
        paper = PAPER.get(name, {}).get((dataset, variant, measure.name))
        cell = summarise(rows, dataset, variant, measure, paper)
        if cell is None:
            continue
        axis.bar(len(shown), cell.ours.mean, yerr=cell.ours.std if cell.seeds > 1 else None, color=colour, capsize=3)
        if paper is not None:
            beside = " (★ paper)"
            axis.plot(len(shown), paper.value, "*", color=PAPER_COLOUR, markersize=9)
        shown.append(variant)
    axis.set_xticks(range(len(shown)), shown, rotation=35, ha="right", fontsize=8)
    axis.set_title(f"{dataset}: {measure.name}{beside}", fontsize=10)
    axis.grid(axis="y", alpha=0.25)
    axis.set_axisbelow(True)


def _log_scale(axis: Axes) -> None:
    """Bars from the power of ten below the lowest, so that none is cut off at its own height"""
    least = min((bar.get_height() for bar in axis.patches if isinstance(bar, Rectangle)), default=1.0)
    axis.set_yscale("log")
    axis.set_ylim(bottom=10.0 ** np.floor(np.log10(max(least, 1e-3)) - 0.1))


def draw_lines(name: str, measures: Sequence[Measure]) -> Callable[[Sequence[Row], Path], None]:
    """A panel a data set and measure; the variants, in their order, are the settings of one knob"""

    def draw(rows: Sequence[Row], path: Path) -> None:
        datasets = list(dict.fromkeys(row.dataset for row in rows))
        figure, axes = panels(len(datasets) * len(measures))
        places = [(dataset, measure) for measure in measures for dataset in datasets]
        for axis, (dataset, measure) in zip(axes, places, strict=True):
            _line(axis, rows, name, dataset, measure)
        save(figure, path)

    return draw


def _line(axis: Axes, rows: Sequence[Row], name: str, dataset: str, measure: Measure) -> None:
    variants = list(dict.fromkeys(row.variant for row in rows if row.dataset == dataset))
    paper = PAPER.get(name, {})
    cells = [summarise(rows, dataset, each, measure, paper.get((dataset, each, measure.name))) for each in variants]
    means = np.array([np.nan if cell is None else cell.ours.mean for cell in cells])
    stds = np.array([0.0 if cell is None else cell.ours.std for cell in cells])
    at = np.arange(len(variants))
    axis.plot(at, means, "o-", color=COLOURS[0], label="ours")
    axis.fill_between(at, means - stds, means + stds, color=COLOURS[0], alpha=0.2)
    theirs = [(x, cell.paper.value) for x, cell in enumerate(cells) if cell is not None and cell.paper is not None]
    if theirs:
        axis.plot(*zip(*theirs, strict=True), "*--", color=PAPER_COLOUR, label="paper")
        axis.legend(fontsize=8, frameon=False)
    axis.set_xticks(at, variants)
    axis.set_title(f"{dataset}: {measure.name}", fontsize=10)
    axis.grid(alpha=0.25)
