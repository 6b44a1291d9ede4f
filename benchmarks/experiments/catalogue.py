"""Every experiment, in the order of the report; those that train nothing of their own come first."""

from benchmarks.experiments.command import find_experiment
from benchmarks.experiments.experiment import Experiment

NAMES = (
    "table2",
    "query_cost",
    "plausibility",
    "run_time",
    "trajectories",
    "agreement",
    "disagreement",
    "spearman",
    "surface",
    "sex",
    "ablation",
    "proxies",
    "penalty",
    "distillation",
    "noise_ratio",
    "noise_range",
    "noise_factor",
    "musk",
)


def catalogue() -> list[Experiment]:
    return [find_experiment(name) for name in NAMES]
