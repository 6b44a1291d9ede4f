"""The factor beta of the noise range. `python -m benchmarks.experiments.noise_factor`"""

import sys
from dataclasses import replace

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import COST, VALIDITY, Experiment, Measured, Scope
from benchmarks.experiments.pictures import draw_lines
from benchmarks.experiments.retrained import AT_BUDGET, measure_config

FACTORS = ("0.6", "0.8", "1.0", "1.2", "1.4")


def run(bench: Bench, variant: str) -> Measured:
    return measure_config(
        bench, replace(bench.varied_config, noise=replace(bench.varied_config.noise, beta=float(variant)))
    )


EXPERIMENT = Experiment(
    name="noise_factor",
    title="The factor of the noise range",
    place="Figure 'beta' (a picture without figures)",
    about=f"The variants are beta in C = beta max|x|, C at least 2. {AT_BUDGET}",
    full=Scope(("adult", "compas"), FACTORS),
    quick=Scope(("blood",), ("0.6", "1.2")),
    measures=(COST, VALIDITY),
    run=run,
    draw=draw_lines("noise_factor", (COST, VALIDITY)),
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
