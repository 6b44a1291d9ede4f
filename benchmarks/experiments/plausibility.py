"""Plausibility by two outlier detectors, from the runs of Table 2. `python -m benchmarks.experiments.plausibility`"""

import sys

from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import Experiment, Measure, Scope
from benchmarks.experiments.methods import METHODS
from benchmarks.experiments.pictures import draw_bars
from benchmarks.experiments.table2 import run

MEASURES = (Measure("lof", "lower", 2), Measure("isoforest", "lower", 2))

EXPERIMENT = Experiment(
    name="plausibility",
    title="Plausibility of the answers",
    place="Table 13",
    about=(
        "Two outlier detectors that know nothing of the method, fitted to the training split. LOF is about 1 for a "
        "usual record; the isolation forest's score lies between 0 and 1; the lower, the more plausible."
    ),
    full=Scope(("spirals", "heloc"), METHODS),
    quick=Scope(("spirals",), METHODS),
    measures=MEASURES,
    run=run,
    draw=draw_bars("plausibility", MEASURES),
    source="table2",
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
