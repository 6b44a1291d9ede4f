"""Table 2: cost and validity of every method on the eight data sets."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

from benchmarks.experiments.answers import Answers, answer, cost_and_validity, figures
from benchmarks.experiments.bench import Bench
from benchmarks.experiments.experiment import COST, REAL, SYNTHETIC, VALIDITY, Experiment, Measure, Measured, Row, Scope
from benchmarks.experiments.methods import DIALS, METHODS, OURS, VERIFIED, answers_of, config_of
from benchmarks.experiments.pictures import COLOURS, PAPER_COLOUR, panels, save
from benchmarks.experiments.published import PAPER
from benchmarks.experiments.tables import mean_curve, mean_of
from models.config import FrontierConfig, SearchConfig

CHEAP = (3.0, 6.0)
"""Prices above those that the frontier is measured at: some rivals spend very little."""

FEW_QUERIES = 10
MARKERS = "oHDdsv^<>XPh"
"""In the order of the methods."""


def run(bench: Bench, method: str) -> Measured:
    answers = answers_of(bench, method)
    curves: dict[str, list[float]] = {}
    if method in DIALS:
        curves = _dial(bench, method)
    elif method in VERIFIED:
        curves = _verified(bench, VERIFIED[method], answers)
    return Measured(figures(bench, answers), curves, answers.note)


def _dial(bench: Bench, method: str) -> dict[str, list[float]]:
    """What the dial buys on the cases themselves: each rival has its own cost, and is met there"""
    model, _ = bench.model(config_of(bench, method))
    searches = [
        SearchConfig(cost_weight=price, min_expected_agreement=0.0, seed=bench.seed)
        for price in (*FrontierConfig().cost_weights, *CHEAP)
    ]
    return _curves(bench, "dial", [answer(bench, model, search) for search in searches])


def _verified(bench: Bench, max_queries: int, unanimous: Answers) -> dict[str, list[float]]:
    """Verified search for each agreement from a majority up, and the queries that a record then takes

    Who asks often wants all models: lower agreements are measured with few queries only.
    """
    model, _ = bench.model()
    members = len(bench.ensemble.member_names)
    counts = range(members // 2 + 1, members) if max_queries <= FEW_QUERIES else ()
    shares = [yes / members for yes in counts]
    searches = [SearchConfig(max_queries=max_queries, min_agreement=share, seed=bench.seed) for share in shares]
    found = [*(answer(bench, model, search) for search in searches), unanimous]
    asked = [(answers.queries.distinct - model.queries) / len(bench.cases) for answers in found]
    return _curves(bench, "verified", found) | {"verified queries": asked}


def _curves(bench: Bench, name: str, found: Sequence[Answers]) -> dict[str, list[float]]:
    """Cost and validity of each setting, on all records and on the few that the slow methods answer"""
    every = [cost_and_validity(bench, answers) for answers in found]
    few = [cost_and_validity(bench, answers, bench.settings.slow_records) for answers in found]
    return {
        f"{name} {which}{measure}": [point[position] for point in points]
        for which, points in (("", every), ("few ", few))
        for position, measure in enumerate(("cost", "validity"))
    }


def draw(rows: Sequence[Row], path: Path) -> None:
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    figure, axes = panels(len(datasets))
    for axis, dataset in zip(axes, datasets, strict=True):
        for method in OURS:
            name, style = ("verified", "--") if method in VERIFIED else ("dial", "-")
            ways = (mean_curve(rows, dataset, method, f"{name} {measure}") for measure in ("cost", "validity"))
            axis.plot(*ways, style, color=COLOURS[METHODS.index(method)], alpha=0.6, linewidth=1.2)
        for method in METHODS:
            _mark(axis, rows, dataset, method)
        theirs = [PAPER["table2"].get((dataset, "densityflow", name)) for name in ("cost", "validity")]
        if theirs[0] is not None and theirs[1] is not None:
            label = "paper's DensityFlow"
            axis.plot(theirs[0].value, theirs[1].value, "*", color=PAPER_COLOUR, markersize=12, label=label)
        _zoom(axis, rows, dataset)
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
        axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_title(dataset)
        axis.set_xlabel("cost (log)")
        axis.set_ylabel("validity")
        axis.grid(alpha=0.25)
    columns = max(2, min(6, 2 * len(axes)))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False)
    save(figure, path)


def _zoom(axis: Axes, rows: Sequence[Row], dataset: str) -> None:
    """Where the methods are: the dial goes on to no change at all, which would take most of the room"""
    marks = [[mean_of(rows, dataset, method, name) for method in METHODS] for name in ("cost", "validity")]
    costs, validities = ([value for value in values if value is not None] for values in marks)
    axis.set_xscale("log")
    axis.set_xlim(0.8 * min(costs), 1.1 * max(costs))
    axis.set_ylim(min(validities) - 0.05, 1.03)


def _mark(axis: Axes, rows: Sequence[Row], dataset: str, method: str) -> None:
    """The method's mean; rivals are hollow, so that one shows behind the other"""
    cost, validity = (mean_of(rows, dataset, method, name) for name in ("cost", "validity"))
    if cost is None or validity is None:
        return
    position = METHODS.index(method)
    fill = "full" if method in OURS else "none"
    axis.plot(cost, validity, MARKERS[position], color=COLOURS[position], fillstyle=fill, markersize=8, label=method)


EXPERIMENT = Experiment(
    name="table2",
    title="Validity and cost of every method",
    place="Table 2",
    about=(
        "One counterfactual for each test record that all models classify correctly, measured on the decoded record. "
        "densityflow asks nothing at explanation time; its dial is set on the validation split to the paper's cost; "
        "densityflow-verified may ask 10 times a record, densityflow-verified-50 as often as it says; oracle may ask "
        "without limit and is a limit, not a rival. "
        "queries counts distinct records put to the ensemble in the whole run, training included, "
        "queries asked counts repeated ones again. unanswered is the share of records that stay as they were; fidelity "
        "the share of test records that a white-box rival's own network puts where most models do. "
        "proven the share of product_mip's answers that are the nearest for certain "
        "(its time limit is by the clock: a busy machine proves less). "
        "Slow methods (product_mip, betarce, dice, nice) answer fewer records."
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
        Measure("proven", "higher", 2),
        Measure("queries", "lower", 0),
        Measure("queries asked", "lower", 0),
        Measure("explain ms", "lower", 1),
        Measure("records", "neither", 0),
    ),
    run=run,
    draw=draw,
)
