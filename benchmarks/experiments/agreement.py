"""The ensemble's votes along the way. `python -m benchmarks.experiments.agreement`"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import REAL, Experiment, Measure, Measured, Row, Scope
from benchmarks.experiments.pictures import COLOURS, panels, save
from benchmarks.experiments.summary import mean_curve
from benchmarks.experiments.ways import ways
from models.ensemble.votes import votes

MEASURES = (Measure("start"), Measure("end", "higher"), Measure("most divided at"))


def run(bench: Bench, variant: str) -> Measured:
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


def draw(rows: Sequence[Row], path: Path) -> None:
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


EXPERIMENT = Experiment(
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
    measures=MEASURES,
    run=run,
    draw=draw,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
