"""Other densities in the place of the NCE score. `python -m benchmarks.experiments.proxies`"""

import sys
from dataclasses import replace
from typing import get_args

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import COST, REAL, VALIDITY, Experiment, Measured, Scope
from benchmarks.experiments.pictures import draw_bars
from benchmarks.experiments.retrained import AT_BUDGET, measure_config
from models.config import Config, DensityProxy

VARIANTS = ("none", "disc2", "knn", "lof", "nce")


def config_of(config: Config, variant: str) -> Config:
    """The variants are the names of the configuration's own proxies"""
    for proxy in get_args(DensityProxy):
        if proxy == variant:
            return replace(config, loss=replace(config.loss, proxy=proxy))
    raise AssertionError(variant)


def run(bench: Bench, variant: str) -> Measured:
    return measure_config(bench, config_of(bench.varied_config, variant))


EXPERIMENT = Experiment(
    name="proxies",
    title="Plug-in density proxies against NCE",
    place="Table 8",
    about=AT_BUDGET,
    full=Scope(REAL, VARIANTS),
    quick=Scope(("blood",), VARIANTS),
    measures=(VALIDITY, COST),
    run=run,
    draw=draw_bars("proxies", (VALIDITY,)),
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
