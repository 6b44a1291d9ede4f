"""Ablation: without the density term, without distillation. `python -m benchmarks.experiments.ablation`"""

import sys
from dataclasses import replace

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import COST, REAL, VALIDITY, Experiment, Measure, Measured, Scope
from benchmarks.experiments.pictures import draw_bars
from benchmarks.experiments.retrained import AT_BUDGET, measure_config
from models.config import Config

VARIANTS = ("full", "without density", "without distillation")


def config_of(config: Config, variant: str) -> Config:
    if variant == "without density":
        return replace(config, loss=replace(config.loss, proxy="none"))
    if variant == "without distillation":
        return replace(config, distill=replace(config.distill, rounds=0))
    return config


def run(bench: Bench, variant: str) -> Measured:
    return measure_config(bench, config_of(bench.varied_config, variant))


EXPERIMENT = Experiment(
    name="ablation",
    title="Without density, without distillation",
    place="Table 3",
    about=AT_BUDGET,
    full=Scope(REAL, VARIANTS),
    quick=Scope(("blood",), VARIANTS),
    measures=(VALIDITY, COST, Measure("lof", "lower", 2), Measure("queries", "lower", 0)),
    run=run,
    draw=draw_bars("ablation", (VALIDITY,)),
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
