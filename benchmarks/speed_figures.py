"""What the speed benchmark writes: figures with names, and what one training run or search came to."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of speed.json; None is a ratio to something that was not reached."""

    name: str
    value: float | None
    unit: str
    detail: str


@dataclass(frozen=True, slots=True)
class Run:
    """A generator at some point of its training: what it had taken and how good its answers were.

    effort is the share of the preset's steps; steps are the generator's, of `schedule` in the whole preset.
    """

    preset: str
    effort: float
    steps: int
    schedule: int
    rounds: int
    seconds: float
    validity: float
    cost: float


@dataclass(frozen=True, slots=True)
class Race:
    """`paper` at its checkpoints and `fast` at its efforts, on one data set."""

    dataset: str
    paper: tuple[Run, ...]
    fast: tuple[Run, ...]
    generator_seconds: float

    @property
    def end(self) -> Run:
        """What `paper` leaves behind: its last checkpoint, with all of its distillation."""
        return self.paper[-1]

    @property
    def wanted(self) -> Run:
        """What `fast` has to reach."""
        return best_of(self.paper)

    @property
    def winner(self) -> Run | None:
        """The first run of `fast` that is as valid as that, at no higher cost."""
        return next((run for run in self.fast if reaches(run, self.wanted)), None)

    @property
    def ratio(self) -> float | None:
        return None if self.winner is None else self.wanted.seconds / self.winner.seconds

    @property
    def whole(self) -> bool:
        """Whether `paper` came to the end of its schedule."""
        return self.end.steps == self.end.schedule

    @property
    def steps_per_second(self) -> float:
        return self.paper[-1].steps / self.generator_seconds

    @property
    def whole_hours(self) -> float:
        """How long all steps of `paper` would take at that pace."""
        return self.paper[-1].schedule / self.steps_per_second / 3600


def best_of(paper: Sequence[Run]) -> Run:
    """The most valid that `paper` ever was, on its way or at its end, at no higher cost than at its end"""
    return max((run for run in paper if run.cost <= paper[-1].cost), key=lambda run: run.validity)


def reaches(run: Run, wanted: Run) -> bool:
    return run.validity >= wanted.validity and run.cost <= wanted.cost


@dataclass(frozen=True, slots=True)
class Throughput:
    """Records a second on one data set: in one batch with fixed steps, and one at a time with adaptive dopri5.

    published: one at a time with dopri5 too, by the model that `paper` trained: what the paper's own search takes.
    trials: that, with each of a record's trials by itself, as Algorithm 2 is printed.
    """

    dataset: str
    batch: float
    batch_whole: float
    alone: float
    alone_whole: float
    published: float
    trials: float

    @property
    def ratio_trials(self) -> float:
        return self.batch / self.trials

    @property
    def ratio_published(self) -> float:
        return self.batch / self.published

    @property
    def ratio(self) -> float:
        return self.batch / self.alone

    @property
    def ratio_whole(self) -> float:
        return self.batch_whole / self.alone_whole


@dataclass(frozen=True, slots=True)
class Latency:
    """explain() of one record: milliseconds by the clock (median, 95%) and of the processor; the share of each part."""

    dataset: str
    median: float
    p95: float
    processor: float
    parts: tuple[tuple[str, float], ...]
