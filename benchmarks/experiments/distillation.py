"""Validity against the budget of distillation. `python -m benchmarks.experiments.distillation`"""

import sys
from dataclasses import replace

from benchmarks.experiments.bench import Bench
from benchmarks.experiments.command import main
from benchmarks.experiments.experiment import COST, VALIDITY, Experiment, Measure, Measured, Scope
from benchmarks.experiments.pictures import draw_lines
from benchmarks.experiments.retrained import AT_BUDGET, measure_config
from models.config import Config

BUDGETS = ("0", "60", "120", "240", "480", "960")


def with_queries(config: Config, budget: int) -> Config:
    """The same rounds with fewer or more queries each; without a query there is no round"""
    rounds = config.distill.rounds
    if budget < rounds:
        return replace(config, distill=replace(config.distill, rounds=0))
    return replace(config, distill=replace(config.distill, queries=budget // rounds))


def run(bench: Bench, variant: str) -> Measured:
    return measure_config(bench, with_queries(bench.varied_config, int(variant)))


EXPERIMENT = Experiment(
    name="distillation",
    title="Validity against the distillation budget",
    place="Figure 'queries', right (a picture without figures)",
    about=f"The variants are the queries that distillation may spend. {AT_BUDGET}",
    full=Scope(("spirals", "adult"), BUDGETS),
    quick=Scope(("spirals",), ("0", "120", "480")),
    measures=(VALIDITY, COST, Measure("queries", "lower", 0)),
    run=run,
    draw=draw_lines("distillation", (VALIDITY,)),
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
