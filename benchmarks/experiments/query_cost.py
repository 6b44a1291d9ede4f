"""Black-box queries of a whole run, from the runs of Table 2. `python -m benchmarks.experiments.query_cost`"""

import sys

from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import VALIDITY, Experiment, Measure, Scope
from benchmarks.experiments.methods import BLACK_BOX, OURS
from benchmarks.experiments.pictures import draw_bars
from benchmarks.experiments.table2 import run

MEASURES = (Measure("queries", "lower", 0), Measure("queries asked", "lower", 0))

EXPERIMENT = Experiment(
    name="query_cost",
    title="What the black boxes are asked",
    place="Figure 'queries', left (a picture without figures; its text counts 480 for DensityFlow)",
    about=(
        "A query is one record scored by the ensemble, in training or in explaining; queries counts distinct records, "
        "queries asked counts a record as often as it was put. For NICE the training set is a sample of 2,000 rows."
    ),
    full=Scope(("spirals", "adult"), (*OURS, *BLACK_BOX)),
    quick=Scope(("spirals",), (*OURS, *BLACK_BOX)),
    measures=(*MEASURES, Measure("records", "neither", 0), VALIDITY),
    run=run,
    draw=draw_bars("query_cost", MEASURES, log=True),
    source="table2",
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
