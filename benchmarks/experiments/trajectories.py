"""The ways on the four plane data sets, over the density. `python -m benchmarks.experiments.trajectories`"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from benchmarks.experiments.answers import cost_and_validity
from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import COST, SYNTHETIC, VALIDITY, Experiment, Measured, Row, Scope
from benchmarks.experiments.methods import RIVALS, rival_answers
from benchmarks.experiments.pictures import COLOURS, panels, save
from benchmarks.experiments.ways import ways
from models.arrays import Records
from models.search.scoring import score_points

METHODS = ("product_mip", "ceflow", "betarce", "argument", "densityflow")
SHOWN = 12
GRID = 48


def run(bench: Bench, method: str) -> Measured:
    cases = bench.cases.first(SHOWN)
    if method == "densityflow":
        answers, way = ways(bench, cases)
        curves = _surface(bench) | _lines(np.concatenate([way, answers.records[:, None]], axis=1))
    else:
        answers = rival_answers(bench, RIVALS[method](), cases)
        curves = _lines(np.stack([cases.records, answers.records], axis=1))
    cost, validity = cost_and_validity(bench, answers)
    return Measured({"cost": cost, "validity": validity, "records": float(len(cases))}, curves)


def _lines(way: Records) -> dict[str, list[float]]:
    """way (n, T, 2) -> the two coordinates, record after record, and T"""
    x, y = (way[:, :, axis].reshape(-1).tolist() for axis in range(2))
    return {"x": x, "y": y, "steps": [float(way.shape[1])]}


def _surface(bench: Bench) -> dict[str, list[float]]:
    """The higher of the classes' density scores on a grid of the plane (GRID * GRID), and the plane's corners"""
    model, _ = bench.model()
    training = bench.study.training.records
    low, high = training.min(axis=0) - 0.3, training.max(axis=0) + 0.3
    sides = [np.linspace(low[axis], high[axis], GRID) for axis in range(2)]
    points = bench.encoder.encode(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2))
    classes = range(len(model.classes))
    scores = [score_points(model, points, np.full(len(points), each, dtype=np.int64)).density for each in classes]
    return {"density": np.max(scores, axis=0).tolist(), "corners": [low[0], high[0], low[1], high[1]]}


def draw(rows: Sequence[Row], path: Path) -> None:
    """The first seed's: a row a data set, a column a method"""
    first = [row for row in rows if row.seed == min(each.seed for each in rows)]
    datasets = list(dict.fromkeys(row.dataset for row in first))
    methods = [method for method in METHODS if any(row.variant == method for row in first)]
    figure, axes = panels(len(datasets) * len(methods), columns=len(methods))
    places = [(dataset, method) for dataset in datasets for method in methods]
    for axis, (dataset, method) in zip(axes, places, strict=True):
        ours = next((row for row in first if (row.dataset, row.variant) == (dataset, "densityflow")), None)
        if ours is not None:
            density = np.clip(np.array(ours.curves["density"]).reshape(GRID, GRID), -6, None)
            left, right, bottom, top = ours.curves["corners"]
            axis.imshow(density, "Blues", origin="lower", extent=(left, right, bottom, top), aspect="auto", alpha=0.8)
        for row in first:
            if (row.dataset, row.variant) == (dataset, method):
                _draw_ways(axis, row)
                axis.set_title(f"{dataset}, {method}: validity {row.values['validity']:.2f}", fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    save(figure, path)


def _draw_ways(axis: Axes, row: Row) -> None:
    steps = int(row.curves["steps"][0])
    x, y = (np.array(row.curves[name]).reshape(-1, steps) for name in ("x", "y"))
    axis.plot(x.T, y.T, "-", color=COLOURS[3], linewidth=1.2)
    axis.plot(x[:, 0], y[:, 0], "o", color="#444444", markersize=3)
    axis.plot(x[:, -1], y[:, -1], "*", color=COLOURS[2], markersize=7)


EXPERIMENT = Experiment(
    name="trajectories",
    title="The ways on the plane data sets",
    place="Figures 'visualization' (pictures; the validity in their captions is that of Table 2)",
    about=(
        f"{SHOWN} records of the first seed from where they are (grey) to their answers (green), over the density "
        "score of the nearer class: dark is dense. Ours are paths of the flow with the polished answer at the end; the "
        "rivals have no path, so theirs are straight."
    ),
    full=Scope(SYNTHETIC, METHODS),
    quick=Scope(("moons", "spirals"), METHODS),
    measures=(COST, VALIDITY),
    run=run,
    draw=draw,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
