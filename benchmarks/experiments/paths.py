"""The way that the flow takes to each answer: over the density of the plane, and what the ensemble votes along it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from benchmarks.experiments.answers import Answers, answer, cost_and_validity
from benchmarks.experiments.bench import Bench
from benchmarks.experiments.experiment import COST, REAL, SYNTHETIC, VALIDITY, Experiment, Measure, Measured, Row, Scope
from benchmarks.experiments.methods import RIVALS, rival_answers
from benchmarks.experiments.pictures import COLOURS, panels, save
from benchmarks.experiments.tables import mean_curve
from models.arrays import Records
from models.ensemble.votes import votes
from models.evaluation.evaluation import Cases
from models.search.scoring import score_points
from models.search.trajectory import flow_paths

METHODS = ("product_mip", "ceflow", "betarce", "argument", "densityflow")
SHOWN = 12
GRID = 48


def ways(bench: Bench, cases: Cases) -> tuple[Answers, Records]:
    """Our answers to the cases, and the records (n, T, F) at equal times from 0 to 1 on the way to each"""
    model, _ = bench.model()
    search = bench.search(model)
    answers = answer(bench, model, search, cases)
    feasible = model.feasible(cases.records)
    points = bench.encoder.encode(answers.records)
    return answers, flow_paths(model, cases.target, feasible, points, search.candidates, search.seed)


def _show_ways(bench: Bench, method: str) -> Measured:
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


def _draw_trajectories(rows: Sequence[Row], path: Path) -> None:
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


TRAJECTORIES = Experiment(
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
    run=_show_ways,
    draw=_draw_trajectories,
)


def _count_votes(bench: Bench, variant: str) -> Measured:
    """At each time: the share of records whose majority says the target, and the share whose votes are split"""
    cases = bench.cases
    _, way = ways(bench, cases)
    times = np.linspace(0.0, 1.0, way.shape[1])
    target_side, divided = [], []
    for step in range(way.shape[1]):
        share = votes(bench.ensemble.predict_proba(way[:, step]), cases.target).mean(axis=0)
        target_side.append(float((share > 0.5).mean()))
        divided.append(float(((share > 0) & (share < 1)).mean()))
    values = {"start": target_side[0], "end": target_side[-1], "most divided at": float(times[int(np.argmax(divided))])}
    return Measured(values, {"time": times.tolist(), "target": target_side, "divided": divided})


def _draw_votes(rows: Sequence[Row], path: Path) -> None:
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    figure, axes = panels(len(datasets))
    for axis, dataset in zip(axes, datasets, strict=True):
        times, target, divided = (mean_curve(rows, dataset, "flow", name) for name in ("time", "target", "divided"))
        width = 0.7 / max(1, len(times) - 1)
        axis.bar(times, target, width, color=COLOURS[0], label="majority says the target")
        others = [1 - share for share in target]
        axis.bar(times, others, width, bottom=target, color=COLOURS[3], label="majority does not")
        axis.plot(times, divided, "k.--", label="votes are divided")
        axis.set_xticks(times[::2], [f"{time:g}" for time in times[::2]])
        axis.set_title(dataset)
        axis.set_xlabel("time on the way")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    save(figure, path)


AGREEMENT = Experiment(
    name="agreement",
    title="The ensemble's votes along the way",
    place="Figure 'Ensemble_Agreement' (a picture without figures)",
    about=(
        "Points of the flow's path, decoded and put to the ensemble: the share of records whose majority says the "
        "target at the start and at the end of the path, and the time at which most records divide the models. The "
        "answer is polished after the flow, so that Table 2 has a higher validity than the end of the path."
    ),
    full=Scope(REAL, ("flow",)),
    quick=Scope(("blood",), ("flow",)),
    measures=(Measure("start"), Measure("end", "higher"), Measure("most divided at")),
    run=_count_votes,
    draw=_draw_votes,
)
