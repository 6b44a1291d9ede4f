"""A variant that is another training: its configuration, its answers at the paper's cost, the figures of both."""

from benchmarks.experiments.answers import answer, figures
from benchmarks.experiments.bench import Bench
from benchmarks.experiments.experiment import Measured
from models.config import Config

AT_BUDGET = (
    "Each variant is trained anew, with a fifth of the steps of our preset (a tenth in a quick run), and has its dial "
    "set on the validation split to the cost of the paper's DensityFlow on that data set, so that validity is compared "
    "at equal cost."
)


def measure_config(bench: Bench, config: Config, budget: float | None = None) -> Measured:
    """The surrogate's search with a model of this configuration"""
    model, seconds = bench.model(config)
    return Measured(figures(bench, answer(bench, model, bench.search(model, budget), fit_seconds=seconds)))
