"""The state of a training run between two steps, in a sealed folder: a run that goes on from it ends in the same bits.

manifest.json       the SHA-256 of the other files and the content hash (models/storage/sealed.py)
checkpoint.json     phase, step, and every number that is not in a tensor
state.safetensors   networks, optimizers, averages, random states, pseudo-labels and queried labels

`Checkpoints` is the policy of a run: where it goes on, when its state is kept, and whether it must stop.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..data.json_fields import read_object
from ..errors import ArtifactError, StoppedError
from ..storage.config_json import FORMAT
from ..storage.sealed import check_seal, write_object, write_sealed

FACTS_FILE = "checkpoint.json"
STATE_FILE = "state.safetensors"
PHASES = ("surrogate", "generator", "distill")
"""In the order of a run; a step of distillation is a round."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run after `step` steps of a phase; the tensors are copies of its own."""

    phase: str
    step: int
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, object]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose name begins with the prefix, without it."""
        return {name[len(prefix) :]: value for name, value in self.tensors.items() if name.startswith(prefix)}


def save_checkpoint(snapshot: Snapshot, folder: Path) -> str:
    """Write the snapshot, whole or not at all, into a folder that is not there yet; returns its content hash."""
    return write_sealed(folder, partial(_write, snapshot))


def load_checkpoint(folder: Path) -> Snapshot:
    """Read what `save_checkpoint` wrote; ArtifactError where a byte of it has changed."""
    check_seal(folder)
    document = read_object(folder / FACTS_FILE)
    phase, step, facts = (document.get(key) for key in ("phase", "step", "facts"))
    if document.get("config_format") != FORMAT:
        raise ArtifactError(f"The checkpoint in '{folder}' is of another version of recourse; start the training anew.")
    if phase not in PHASES or not isinstance(phase, str) or type(step) is not int or not isinstance(facts, dict):
        raise ArtifactError(f"'{folder}' is not a checkpoint of a training run; start the training anew.")
    try:
        tensors = load((folder / STATE_FILE).read_bytes())
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"The checkpoint in '{folder}' cannot be read; start the training anew.") from error
    return Snapshot(phase, step, tensors, facts)


def _write(snapshot: Snapshot, folder: Path) -> None:
    document = {"phase": snapshot.phase, "step": snapshot.step, "facts": dict(snapshot.facts)}
    write_object(folder / FACTS_FILE, document | {"config_format": FORMAT})
    tensors = {name: value.cpu().contiguous() for name, value in snapshot.tensors.items()}
    (folder / STATE_FILE).write_bytes(save(tensors))


Steps: TypeAlias = Callable[[str, int], Iterable[int]]
"""(phase, count) -> the steps of the phase to do, from 0; the body of the loop has ended when the next is asked for."""


def all_steps(phase: str, count: int) -> Iterable[int]:
    """The checkpoint policy of a run that is never interrupted: all steps, and nothing is kept."""
    return range(count)


def never() -> bool:
    return False


class Checkpoints:
    """The checkpoint policy of a run that may be interrupted.

    keep         is given a snapshot at the end of each phase, and in between once in so many `seconds`
    resume       the snapshot to go on from
    should_stop  asked after each step; if it says so, the state is kept and StoppedError ends the run
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

    def steps(self, snapshot: Callable[[str, int], Snapshot], restore: Callable[[Snapshot], None]) -> Steps:
        """The steps of a run whose state is taken by `snapshot(phase, step)` and put back by `restore`."""

        def run(phase: str, count: int) -> Iterator[int]:
            for step in range(self._enter(restore, phase, count), count):
                yield step
                self._after(snapshot, phase, step + 1, count)

        return run

    def _enter(self, restore: Callable[[Snapshot], None], phase: str, count: int) -> int:
        """The first step to do: none of a phase that was over, the next one of the phase that was interrupted."""
        if self.resume is None or PHASES.index(phase) > PHASES.index(self.resume.phase):
            return 0
        if phase != self.resume.phase:
            return count
        restore(self.resume)
        return self.resume.step

    def _after(self, snapshot: Callable[[str, int], Snapshot], phase: str, done: int, count: int) -> None:
        stop = self._should_stop()
        if stop or done == count or self._clock() - self._kept_at >= self._seconds:
            self._keep(snapshot(phase, done))
            self._kept_at = self._clock()
        if stop:
            raise StoppedError(f"The training was told to stop after step {done} of {count} of phase '{phase}'.")
