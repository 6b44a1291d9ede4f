"""The state of a training run between two steps, in a sealed folder: a run that goes on from it ends in the same bits.

manifest.json       the SHA-256 of the other files and the content hash (models/sealed.py)
checkpoint.json     phase, step, and every number that is not in a tensor
state.safetensors   networks, optimizers, averages, random states, lessons and bought answers
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from models.errors import ArtifactError
from models.sealed import check_seal, read_object, write_object, write_sealed

FACTS_FILE = "checkpoint.json"
STATE_FILE = "state.safetensors"
PHASES = ("surrogate", "generator", "distill", "settle")
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
    if phase not in PHASES or not isinstance(phase, str) or type(step) is not int or not isinstance(facts, dict):
        raise ArtifactError(f"'{folder}' is not a checkpoint of a training run; start the training anew.")
    try:
        tensors = load((folder / STATE_FILE).read_bytes())
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"The checkpoint in '{folder}' cannot be read; start the training anew.") from error
    return Snapshot(phase, step, tensors, facts)


def _write(snapshot: Snapshot, folder: Path) -> None:
    write_object(folder / FACTS_FILE, {"phase": snapshot.phase, "step": snapshot.step, "facts": dict(snapshot.facts)})
    tensors = {name: value.cpu().contiguous() for name, value in snapshot.tensors.items()}
    (folder / STATE_FILE).write_bytes(save(tensors))
