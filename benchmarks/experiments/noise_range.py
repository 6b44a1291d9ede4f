"""The range C of the noise. `python -m benchmarks.experiments.noise_range`"""

import sys
from dataclasses import replace

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import COST, VALIDITY, Experiment, Measured, Scope
from benchmarks.experiments.pictures import draw_lines
from benchmarks.experiments.retrained import AT_BUDGET, measure_config

RANGES = ("0.2", "0.5", "1.0", "2.0", "data")


def run(bench: Bench, variant: str) -> Measured:
    bound = None if variant == "data" else float(variant)
    return measure_config(bench, replace(bench.varied_config, noise=replace(bench.varied_config.noise, bound=bound)))


EXPERIMENT = Experiment(
    name="noise_range",
    title="The range of the noise",
    place="Table 10, lower half",
    about=f"The variants are C, the half-width of the noise; 'data' takes 1.2 times the largest value. {AT_BUDGET}",
    full=Scope(("adult", "compas"), RANGES),
    quick=Scope(("blood",), ("0.5", "2.0", "data")),
    measures=(COST, VALIDITY),
    run=run,
    draw=draw_lines("noise_range", (COST, VALIDITY)),
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
