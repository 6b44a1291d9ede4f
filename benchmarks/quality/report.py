"""The page and the picture of the quality benchmark: QUALITY.md with its tables, quality.png with the frontiers."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.quality.summary import (
    FrontierRow,
    QualityRow,
    Summary,
    datasets_of,
    mark,
    mean_frontier,
    reaches_the_limit,
    spread,
    summarise,
    validity_at,
)
from models.config import EvaluationConfig, FrontierConfig
from models.evaluation.evaluation import PUBLISHED, Method

PROTOCOL = EvaluationConfig()
METHODS: tuple[Method, ...] = ("densityflow", "densityflow-verified", "oracle")

_INTRODUCTION = """# Quality

Written by `python -m benchmarks.quality` from `quality.json`; do not edit. Means and population standard deviations
over the seeds. Each run explains test records that all models of its ensemble classify correctly, one counterfactual
to a record, measured on the decoded record by asking the ensemble anew.
"""

_PAPER = f"""
## Surrogate alone, beside the paper

No query at explanation time. The cost weight is set on up to {PROTOCOL.weight_records} records of the validation split,
those of which the surrogate expects less than one model to say the target: nobody is asked, and the queries of the
training are all that there are. So answers cost what the paper's do, less {PROTOCOL.standard_errors:g} standard error
of that mean (other records may cost more), and less still where the surrogate already expects
{FrontierConfig().enough} of the votes.
*Beats*: at least the paper's validity at no higher cost. *Matches*: so, with one standard deviation granted. The last
figure is read off the frontier of the first 500 test records, between two settings of the dial, at exactly the paper's
cost: what the method reaches where no margin is left for the dial; no verdict hangs on it.
"""

_LIMIT = """
## Verified search, beside the oracle

The oracle may ask without limit (METHOD.md, section 8). Wanted: at least 0.95 of its unanimity at no more than 1.1
times its cost.
"""

_MORE = """
## Everything else

LOF is about 1 for a usual record; the isolation forest's score lies between 0 and 1; the lower, the more plausible.
Queries are records put to the ensemble. Milliseconds are those of a batch, divided by its records, on one core.
"""


def write_report(rows: Sequence[QualityRow], frontier: Sequence[FrontierRow]) -> str:
    """The whole page."""
    names = datasets_of(rows, PUBLISHED)
    runs = sorted({row.job.ensemble for row in rows})
    parts = [_INTRODUCTION, f"\nEnsembles: {', '.join(runs)}.\n", _PAPER, _paper_table(rows, frontier, names)]
    return "".join([*parts, _LIMIT, _limit_table(rows, names), _MORE, _full_table(rows, names)])


def _paper_table(rows: Sequence[QualityRow], frontier: Sequence[FrontierRow], names: Sequence[str]) -> str:
    header = ("data set", "seeds", "paper cost", "paper validity", "our cost", "our validity", "unanimity", "")
    lines = []
    for name in names:
        ours, paper = summarise(rows, name, "densityflow"), PUBLISHED.get(name)
        figures = (str(ours.cost), str(ours.validity), str(ours.unanimity))
        if paper is None:
            lines.append((name, str(ours.seeds), "", "", *figures, "", ""))
            continue
        theirs, there = (f"{paper.cost:.3f}", f"{paper.validity:.3f}"), validity_at(frontier, name, paper.cost)
        lines.append((name, str(ours.seeds), *theirs, *figures, mark(ours, paper), "" if there is None else str(there)))
    return _table((*header, "validity at the paper's cost"), lines)


def _limit_table(rows: Sequence[QualityRow], names: Sequence[str]) -> str:
    header = ("data set", "oracle cost", "oracle unanimity", "our cost", "our unanimity", "queries: mean, most")
    lines = []
    for name in names:
        ours, limit = summarise(rows, name, "densityflow-verified"), summarise(rows, name, "oracle")
        asked = spread(quality.queries_per_explanation for quality in ours.qualities).mean
        most = max(quality.max_queries_used for quality in ours.qualities)
        figures = (str(limit.cost), str(limit.unanimity), str(ours.cost), str(ours.unanimity), f"{asked:.1f}, {most}")
        lines.append((name, *figures, *_ratios(ours, limit)))
    return _table((*header, "unanimity ratio", "cost ratio", ""), lines)


def _ratios(ours: Summary, limit: Summary) -> tuple[str, str, str]:
    def ratio(mine: float, other: float) -> str:
        return f"{mine / other:.3f}" if other else "none"

    ratios = ratio(ours.unanimity.mean, limit.unanimity.mean), ratio(ours.cost.mean, limit.cost.mean)
    return *ratios, "reached" if reaches_the_limit(ours, limit) else "not reached"


def _full_table(rows: Sequence[QualityRow], names: Sequence[str]) -> str:
    header = ("data set", "method", "validity", "features changed", "LOF", "isolation", "training queries")
    lines = []
    for name in names:
        for method in METHODS:
            found = summarise(rows, name, method).qualities
            changed = spread(quality.sparsity for quality in found)
            lof, isolation = spread(quality.lof for quality in found), spread(quality.isoforest for quality in found)
            asked = max(quality.queries_train for quality in found)
            seconds = spread(quality.train_seconds for quality in found)
            speed = spread(quality.explain_ms for quality in found)
            count = sum(quality.records for quality in found)
            validity = spread(quality.validity for quality in found)
            shown = (str(validity), f"{changed.mean:.2f}", f"{lof.mean:.2f}", f"{isolation.mean:.3f}", str(asked))
            lines.append((name, method, *shown, f"{seconds.mean:.0f}", f"{speed.mean:.2f}", str(count)))
    return _table((*header, "training s", "explain ms", "records"), lines)


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *lines)) + "\n"


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
