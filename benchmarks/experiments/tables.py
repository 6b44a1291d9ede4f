"""The page of one experiment: its table in Markdown, the paper's figure beside ours."""

from collections.abc import Sequence

from benchmarks.experiments.experiment import Experiment, Row
from benchmarks.experiments.published import PAPER
from benchmarks.experiments.summary import Cell, summarise

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
    return f"{mode}, seeds {seeds}, by `python -m benchmarks.experiments.{experiment.name}`.{lacking}"


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
