"""Table 2: cost and validity of every method on the eight data sets. `python -m benchmarks.experiments.table2`"""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.experiments.answers import answer, cost_and_validity, figures
from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import COST, REAL, SYNTHETIC, VALIDITY, Experiment, Measure, Measured, Row, Scope
from benchmarks.experiments.methods import METHODS, answers_of
from benchmarks.experiments.pictures import COLOURS, PAPER_COLOUR, panels, save
from benchmarks.experiments.published import PAPER
from benchmarks.experiments.summary import mean_curve, mean_of
from models.frontier import PRICES
from models.search import SearchConfig


def run(bench: Bench, method: str) -> Measured:
    answers = answers_of(bench, method)
    curves = _frontier(bench) if method == "densityflow" else {}
    return Measured(figures(bench, answers), curves, answers.note)


def _frontier(bench: Bench) -> dict[str, list[float]]:
    """What the dial buys on the cases themselves: each rival has its own cost, and is met there"""
    model, _ = bench.model()
    searches = [SearchConfig(price=price, floor=0.0, seed=bench.seed) for price in PRICES]
    points = [cost_and_validity(bench, answer(bench, model, search)) for search in searches]
    return {"dial cost": [cost for cost, _ in points], "dial validity": [validity for _, validity in points]}


def draw(rows: Sequence[Row], path: Path) -> None:
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    figure, axes = panels(len(datasets))
    for axis, dataset in zip(axes, datasets, strict=True):
        axis.plot(
            mean_curve(rows, dataset, "densityflow", "dial cost"),
            mean_curve(rows, dataset, "densityflow", "dial validity"),
            "-",
            color=COLOURS[0],
            alpha=0.5,
        )
        for position, method in enumerate(METHODS):
            at = [mean_of(rows, dataset, method, name) for name in ("cost", "validity")]
            if at[0] is not None and at[1] is not None:
                axis.plot(at[0], at[1], "o", color=COLOURS[position % len(COLOURS)], label=method)
        theirs = [PAPER["table2"].get((dataset, "densityflow", name)) for name in ("cost", "validity")]
        if theirs[0] is not None and theirs[1] is not None:
            label = "paper's DensityFlow"
            axis.plot(theirs[0].value, theirs[1].value, "*", color=PAPER_COLOUR, markersize=12, label=label)
        axis.set_title(dataset)
        axis.set_xlabel("cost")
        axis.set_ylabel("validity")
        axis.grid(alpha=0.25)
    columns = max(2, min(6, 2 * len(axes)))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False)
    save(figure, path)


EXPERIMENT = Experiment(
    name="table2",
    title="Validity and cost of every method",
    place="Table 2",
    about=(
        "One counterfactual for each test record that all models classify correctly, measured on the decoded record. "
        "densityflow asks nothing at explanation time; its dial is set on the validation split to the paper's cost; "
        "densityflow-verified may ask 10 times a record; oracle may ask without limit and is a limit, not a rival. "
        "queries counts distinct records put to the ensemble in the whole run, training included, "
        "queries asked counts repeated ones again. unanswered is the share of records that stay as they were; fidelity "
        "the share of test records that a white-box rival's own network puts where most models do. "
        "Slow methods (product_mip, dice, nice) answer fewer records."
    ),
    full=Scope((*SYNTHETIC, *REAL), METHODS),
    quick=Scope(("moons", "spirals", "blood", "heloc"), METHODS),
    measures=(
        COST,
        VALIDITY,
        Measure("unanimity", "higher"),
        Measure("changed", "lower", 2),
        Measure("unanswered", "lower", 2),
        Measure("fidelity", "higher"),
        Measure("queries", "lower", 0),
        Measure("queries asked", "lower", 0),
        Measure("explain ms", "lower", 1),
        Measure("records", "neither", 0),
    ),
    run=run,
    draw=draw,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
