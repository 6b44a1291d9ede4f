"""What a training tells while it runs: the job's progress at most twice a second, and the points of its curves."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from models.config import Config
from models.ensemble.local import EnsembleProgress
from models.errors import StoppedError
from worker.held_job import HeldJob

WRITE_SECONDS = 0.5
FIRST_GAP = 1.0
"""Seconds between two points of a curve; they double whenever the points had to be thinned."""
GENERATOR_STEP, CHOICE = 2.0, 40.0
"""Roughly how long a step of the generator, and the choice of a round's queries, take, in steps of the surrogate."""


@dataclass(frozen=True, slots=True)
class Units:
    """The work of each phase in steps of the surrogate, to tell how much is left."""

    per_step: Mapping[str, float]
    steps: Mapping[str, int]

    @classmethod
    def of(cls, config: Config, rows: int) -> "Units":
        generator, distill = config.generator, config.distill
        epochs = None if generator.epochs is None else generator.epochs * math.ceil(rows / generator.batch)
        step = GENERATOR_STEP + (1.0 if generator.joint else 0.0)
        turn = CHOICE + distill.surrogate_steps + GENERATOR_STEP * distill.generator_steps
        return cls(
            {"surrogate": 1.0, "generator": step, "distill": turn},
            {
                "surrogate": config.surrogate.steps,
                "generator": epochs or generator.steps,
                "distill": distill.rounds,
            },
        )

    def done(self, phase: str, step: int) -> float:
        """The work that lies behind `step` steps of a phase."""
        phases = list(self.per_step)
        before = phases[: phases.index(phase)]
        return sum(self.per_step[name] * self.steps[name] for name in before) + self.per_step[phase] * step

    @property
    def total(self) -> float:
        return sum(self.per_step[name] * self.steps[name] for name in self.per_step)


class Progress:
    """Both reports of a training, for its ensemble and for its networks; `should_stop` ends the former."""

    def __init__(self, held: HeldJob, should_stop: Callable[[], bool]) -> None:
        self._held, self._should_stop = held, should_stop
        self.units: Units | None = None
        self.queries: Callable[[], int] = lambda: 0
        self._began: tuple[float, float] | None = None
        self._written, self._pointed, self._gap = -math.inf, -math.inf, FIRST_GAP
        self._phase, self._points = "", 0

    def ensemble(self, progress: EnsembleProgress) -> None:
        """For models.ensemble.local.train_local_ensemble."""
        self.show("ensemble", progress.done, progress.total, note=f"{progress.member}: {progress.stage}")
        if self._should_stop():
            raise StoppedError(f"The training was told to stop after {progress.done} of {progress.total} fits.")

    def report(self, phase: str, step: int, steps: int, figure: float) -> None:
        """For models.training.train."""
        self.show(phase, step, steps, loss=figure)

    def show(
        self, phase: str, step: int = 0, steps: int = 0, loss: float | None = None, note: str | None = None
    ) -> None:
        """Write it, unless something was written just before; the ends of a phase are always written."""
        now = time.monotonic()
        edge = phase != self._phase or step == steps
        if not edge and now - self._written < WRITE_SECONDS:
            return
        point = edge or now - self._pointed >= self._gap
        progress: dict[str, object] = {"phase": phase, "step": step, "steps": steps, "queries": self.queries()}
        if loss is not None and math.isfinite(loss):
            progress["loss"] = loss
        if note is not None:
            progress["note"] = note
        progress["eta_seconds"] = self._eta(phase, step, now)
        points = self._held.save_progress(progress, event=point)
        self._phase, self._written = phase, now
        if point:
            self._pointed = now
        if points is not None:
            # The database dropped every second one: from now on they come half as often.
            self._gap *= 2 if points <= self._points else 1
            self._points = points

    def _eta(self, phase: str, step: int, now: float) -> float | None:
        """From the pace since this process began to train; None where nothing is known yet."""
        if self.units is None or phase not in self.units.per_step:
            return None
        done = self.units.done(phase, step)
        if self._began is None:
            self._began = (now, done)
        seconds, work = now - self._began[0], done - self._began[1]
        return round((self.units.total - done) * seconds / work, 1) if work > 0 else None
