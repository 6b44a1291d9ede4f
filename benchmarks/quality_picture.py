"""quality.png: a small picture for each data set, our cost-validity frontier with the paper's point beside ours."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.quality_store import FrontierRow, QualityRow
from benchmarks.quality_summary import datasets_of, mean_frontier, summarise
from models.evaluation.evaluation import PUBLISHED, Method

COLUMNS = 3
LINE = "#4c72b0"
STYLES: tuple[tuple[Method, str, str, str], ...] = (
    ("densityflow", "ours, surrogate alone", "o", LINE),
    ("densityflow-verified", "ours, verified", "s", "#55a868"),
    ("oracle", "oracle", "D", "#8c8c8c"),
)
PAPER_COLOUR = "#c44e52"


def draw_picture(rows: Sequence[QualityRow], frontier: Sequence[FrontierRow], path: Path) -> None:
    names = datasets_of(rows, PUBLISHED)
    height = -(-len(names) // COLUMNS)
    figure = Figure(figsize=(4.2 * COLUMNS, 3.2 * height + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(height, COLUMNS, squeeze=False).flatten()
    for name, panel in zip(names, panels, strict=False):
        _draw_panel(panel, name, rows, frontier)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=150)


def _draw_panel(panel: Axes, name: str, rows: Sequence[QualityRow], frontier: Sequence[FrontierRow]) -> None:
    points = mean_frontier(frontier, name)
    costs, validities = [point.cost for point in points], [point.validity for point in points]
    panel.plot(costs, validities, "-", color=LINE, alpha=0.6, label="ours, the dial turned")
    for method, label, shape, colour in STYLES:
        ours = summarise(rows, name, method)
        at, off = (ours.cost.mean, ours.validity.mean), (ours.cost.std, ours.validity.std)
        panel.errorbar(*at, xerr=off[0], yerr=off[1], fmt=shape, color=colour, capsize=2, markersize=6, label=label)
    if name in PUBLISHED:
        paper = PUBLISHED[name]
        panel.plot(paper.cost, paper.validity, "*", color=PAPER_COLOUR, markersize=13, label="paper")
    panel.set_title(name)
    panel.set_xlabel("cost")
    panel.set_ylabel("validity")
    panel.grid(alpha=0.25)
