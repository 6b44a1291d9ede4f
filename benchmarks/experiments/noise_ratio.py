"""The noise ratio tau. `python -m benchmarks.experiments.noise_ratio`"""

import sys
from dataclasses import replace

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import COST, VALIDITY, Experiment, Measured, Scope
from benchmarks.experiments.pictures import draw_lines
from benchmarks.experiments.retrained import AT_BUDGET, measure_config

RATIOS = ("0.1", "0.2", "0.3", "0.5", "1.0")


def run(bench: Bench, variant: str) -> Measured:
    return measure_config(
        bench, replace(bench.varied_config, noise=replace(bench.varied_config.noise, ratio=float(variant)))
    )


EXPERIMENT = Experiment(
    name="noise_ratio",
    title="The noise ratio",
    place="Table 10, upper half, and Figure 'tau'",
    about=f"The variants are tau, noise points a data point. {AT_BUDGET}",
    full=Scope(("adult", "compas"), RATIOS),
    quick=Scope(("blood",), ("0.1", "0.2", "1.0")),
    measures=(COST, VALIDITY),
    run=run,
    draw=draw_lines("noise_ratio", (COST, VALIDITY)),
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
