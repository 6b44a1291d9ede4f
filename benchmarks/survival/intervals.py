"""Bootstrap intervals over seeds and records: of a figure, and of the difference between two methods.

Data sets are fixed and count alike. Within each, seeds are drawn with repeats, then records within each seed. Where two
methods answered the same records, both are read at the same draws, so that what is hard for both cancels out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats

DRAWS = 1000
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Run:
    """The figure of each record (n,) in one run, and what it is compared with (n,), or (k,) where not paired."""

    values: Floats
    others: Floats | None = None
    paired: bool = True

    @property
    def mean(self) -> float:
        return float(self.values.mean()) - (0.0 if self.others is None else float(self.others.mean()))

    def drawn(self, random: np.random.Generator, times: int) -> Floats:
        """The mean, or the mean difference, of so many draws of the records (times,)"""
        rows = random.integers(len(self.values), size=(times, len(self.values)))
        means: Floats = self.values[rows].mean(axis=1)
        if self.others is None:
            return means
        if not self.paired:
            rows = random.integers(len(self.others), size=(times, len(self.others)))
        others: Floats = self.others[rows].mean(axis=1)
        return means - others


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the bounds between which it lies at LEVEL."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def interval(datasets: Sequence[Sequence[Run]], draws: int = DRAWS) -> Interval | None:
    """For each data set the runs of its seeds; None where there are none at all"""
    present = [runs for runs in datasets if runs]
    if not present:
        return None
    random = np.random.default_rng(0)
    means = np.mean([_drawn(runs, random, draws) for runs in present], axis=0)
    low, high = np.quantile(means, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Interval(float(np.mean([np.mean([run.mean for run in runs]) for runs in present])), float(low), float(high))


def _drawn(runs: Sequence[Run], random: np.random.Generator, draws: int) -> Floats:
    """The mean over as many runs as there are, drawn with repeats, of one data set (draws,)"""
    means = np.empty((len(runs), draws))
    for slot in range(len(runs)):
        chosen = random.integers(len(runs), size=draws)
        for number, run in enumerate(runs):
            taken = chosen == number
            means[slot, taken] = run.drawn(random, int(taken.sum()))
    mean: Floats = means.mean(axis=0)
    return mean
