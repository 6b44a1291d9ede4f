"""The steps of a training run, one by one: where it goes on, when its state is kept, and whether it must stop."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from models.checkpoint import PHASES, Snapshot
from models.errors import StoppedError


class Steps(Protocol):
    """The steps of a phase, counted from 0; the loop's body has ended when the next one is asked for."""

    def __call__(self, phase: str, count: int) -> Iterable[int]: ...


def straight(phase: str, count: int) -> Iterable[int]:
    """All of them, without a stop."""
    return range(count)


class Stateful(Protocol):
    """What can be put aside and taken up again."""

    def snapshot(self, phase: str, step: int) -> Snapshot: ...

    def restore(self, snapshot: Snapshot) -> None: ...


def never() -> bool:
    return False


class Checkpoints:
    """What a caller wants of a run that may be interrupted.

    keep         is given a snapshot at the end of each phase, and in between once in so many `seconds`
    resume       the snapshot to go on from
    should_stop  asked after each step; the state is kept, then StoppedError ends the run
    """

    def __init__(
        self,
        keep: Callable[[Snapshot], None],
        resume: Snapshot | None = None,
        seconds: float = 10.0,
        should_stop: Callable[[], bool] = never,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resume = resume
        self._keep, self._seconds, self._should_stop, self._clock = keep, seconds, should_stop, clock
        self._kept_at = clock()

    def steps(self, state: Stateful) -> Steps:
        """The steps of a run with this state."""

        def run(phase: str, count: int) -> Iterator[int]:
            for step in range(self._enter(state, phase, count), count):
                yield step
                self._after(state, phase, step + 1, count)

        return run

    def _enter(self, state: Stateful, phase: str, count: int) -> int:
        """The first step to do: none of a phase that was over, the next one of the phase that was interrupted."""
        if self.resume is None or PHASES.index(phase) > PHASES.index(self.resume.phase):
            return 0
        if phase != self.resume.phase:
            return count
        state.restore(self.resume)
        return self.resume.step

    def _after(self, state: Stateful, phase: str, done: int, count: int) -> None:
        stop = self._should_stop()
        if stop or done == count or self._clock() - self._kept_at >= self._seconds:
            self._keep(state.snapshot(phase, done))
            self._kept_at = self._clock()
        if stop:
            raise StoppedError(f"The training was told to stop after step {done} of {count} of phase '{phase}'.")
