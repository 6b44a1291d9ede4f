"""The trade-off surface over lambda_valid and lambda_cost."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.experiments.answers import answer, cost_and_validity
from benchmarks.experiments.bench import Bench
from benchmarks.experiments.experiment import COST, VALIDITY, Experiment, Measured, Row, Scope
from benchmarks.experiments.pictures import panels, save
from benchmarks.experiments.tables import mean_of
from models.config import SearchConfig

VALID, COSTS = (1.0, 1.25, 1.5, 1.75, 2.0), (0.2, 0.3, 0.4, 0.5, 0.6)
"""The paper's grid."""


def variant_name(valid: float, cost: float) -> str:
    return f"valid {valid:g}, cost {cost:g}"


VARIANTS = {variant_name(valid, cost): cost / valid for valid in VALID for cost in COSTS}
"""The price of each point: only the ratio of the two weights decides."""


def run(bench: Bench, variant: str) -> Measured:
    model, _ = bench.model()
    search = SearchConfig(cost_weight=VARIANTS[variant], min_expected_agreement=0.0, seed=bench.seed)
    cost, validity = cost_and_validity(bench, answer(bench, model, search))
    return Measured({"cost": cost, "validity": validity})


def draw(rows: Sequence[Row], path: Path) -> None:
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    figure, axes = panels(2 * len(datasets), columns=len(datasets))
    places = [(measure, dataset) for measure in ("validity", "cost") for dataset in datasets]
    for axis, (measure, dataset) in zip(axes, places, strict=True):
        found = [[mean_of(rows, dataset, variant_name(valid, cost), measure) for cost in COSTS] for valid in VALID]
        image = axis.imshow(np.array(found, dtype=np.float64), origin="lower", aspect="auto", cmap="viridis")
        axis.set_xticks(range(len(COSTS)), [f"{cost:g}" for cost in COSTS])
        axis.set_yticks(range(len(VALID)), [f"{valid:g}" for valid in VALID])
        axis.set_xlabel("lambda_cost")
        axis.set_ylabel("lambda_valid")
        axis.set_title(f"{measure} on {dataset}")
        figure.colorbar(image, ax=axis)
    save(figure, path)


EXPERIMENT = Experiment(
    name="surface",
    title="The trade-off between cost and validity",
    place="Figure 'trade-off' (a picture without figures)",
    about=(
        "The paper trains a model for each pair of weights. Here one generator, told the weight of cost, serves them "
        "all: the price of the search is lambda_cost / lambda_valid, and nothing is trained anew."
    ),
    full=Scope(("adult", "compas", "heloc"), tuple(VARIANTS)),
    quick=Scope(("blood",), tuple(VARIANTS)),
    measures=(COST, VALIDITY),
    run=run,
    draw=draw,
)
