"""Processor seconds of the whole pipeline, from the runs of Table 2. `python -m benchmarks.experiments.run_time`"""

import sys

from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import Experiment, Measure, Scope
from benchmarks.experiments.methods import METHODS
from benchmarks.experiments.pictures import draw_bars
from benchmarks.experiments.table2 import run

MEASURES = (Measure("seconds", "lower", 1), Measure("explain ms", "lower", 1))

EXPERIMENT = Experiment(
    name="run_time",
    title="Running time",
    place="Table 12",
    about=(
        "Processor seconds of training and explaining; the ensemble is the lender's and is not counted. The paper had "
        "a server with an RTX 4090 and explained more records, so that its seconds compare with ours only in kind; "
        "milliseconds a record are given beside them."
    ),
    full=Scope(("spirals", "heloc"), METHODS),
    quick=Scope(("spirals",), METHODS),
    measures=(*MEASURES, Measure("records", "neither", 0)),
    run=run,
    draw=draw_bars("run_time", MEASURES, log=True),
    source="table2",
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
