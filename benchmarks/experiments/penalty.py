"""The density penalty at the endpoint or along the path. `python -m benchmarks.experiments.penalty`"""

import sys
from dataclasses import replace

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import COST, REAL, VALIDITY, Experiment, Measured, Scope
from benchmarks.experiments.pictures import draw_bars
from benchmarks.experiments.retrained import AT_BUDGET, measure_config

VARIANTS = ("endpoint", "path")


def run(bench: Bench, variant: str) -> Measured:
    return measure_config(
        bench, replace(bench.varied_config, loss=replace(bench.varied_config.loss, path=variant == "path"))
    )


EXPERIMENT = Experiment(
    name="penalty",
    title="Endpoint penalty against path penalty",
    place="Table 7",
    about=AT_BUDGET,
    full=Scope(REAL, VARIANTS),
    quick=Scope(("blood",), VARIANTS),
    measures=(COST, VALIDITY),
    run=run,
    draw=draw_bars("penalty", (COST, VALIDITY)),
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
