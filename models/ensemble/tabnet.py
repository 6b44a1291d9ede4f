"""TabNet: the network of pytorch-tabnet in a training loop of our own.

The library's loop collates row by row and seeds the whole process, and its predict_proba builds a DataLoader for every
call; the network itself is used as it is.
"""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from pytorch_tabnet.tab_network import TabNet as TabNetNetwork
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from models.ensemble.member import Codes, Probabilities, require_every_class
from models.ensemble.sampling import hold_out
from models.errors import ArtifactError
from models.matrix import Encoded

WEIGHTS_FILE = "tabnet.safetensors"
SHAPE_FILE = "tabnet.json"


@dataclass(frozen=True, slots=True)
class TabNetShape:
    """What the network is built from: D inputs, K classes, the width of a decision step and the number of steps."""

    inputs: int
    classes: int
    width: int
    steps: int

    def __post_init__(self) -> None:
        for field, value in asdict(self).items():
            if not isinstance(value, int) or value < 1:
                raise ArtifactError(f"TabNet's '{field}' is {value!r}, not a positive whole number.")


@dataclass(frozen=True)
class TabNet:
    """A fitted TabNet."""

    name: ClassVar[str] = "tabnet"
    shape: TabNetShape
    network: nn.Module

    def predict_proba(self, x: Encoded) -> Probabilities:
        """x (n, D) -> (n, K)"""
        with torch.inference_mode():
            logits, _ = self.network(torch.from_numpy(x.astype(np.float32)))
            return np.asarray(torch.softmax(logits.double(), dim=1).numpy())

    def save(self, folder: Path) -> None:
        (folder / SHAPE_FILE).write_text(json.dumps(asdict(self.shape)))
        # The decision steps share layers, which the state holds once for each step: each gets memory of its own.
        save_file({name: value.clone() for name, value in self.network.state_dict().items()}, folder / WEIGHTS_FILE)

    @classmethod
    def load(cls, folder: Path) -> "TabNet":
        try:
            shape = TabNetShape(**json.loads((folder / SHAPE_FILE).read_text()))
            network = build_network(shape, 128, seed=0)
            network.load_state_dict(load_file(folder / WEIGHTS_FILE))
        except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
            raise ArtifactError(f"TabNet's files in '{folder}' are missing or damaged; train it anew.") from error
        return cls(shape, network.eval())


@dataclass(frozen=True, slots=True)
class TabNetRecipe:
    """Width, steps and training length; it stops early on a part of the training rows that it does not learn from."""

    width: int = 8
    steps: int = 3
    batch: int = 256
    learning_rate: float = 0.02
    max_epochs: int = 200
    patience: int = 30
    held_out: float = 0.15

    def fit(self, x: Encoded, y: Codes, classes: int, seed: int) -> TabNet:
        """x (n, D), y (n,) -> TabNet"""
        require_every_class(y, classes)
        shape = TabNetShape(x.shape[1], classes, self.width, self.steps)
        learn, validate = hold_out(y, self.held_out, seed)
        points, codes = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64))
        with _one_thread():
            network = build_network(shape, self.batch, seed)
            _train(network, self, (points[learn], codes[learn]), (points[validate], codes[validate]), seed)
        return TabNet(shape, network.eval())


def build_network(shape: TabNetShape, virtual_batch: int, seed: int) -> nn.Module:
    """The untrained network; the random state of the process is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: nn.Module = TabNetNetwork(
            shape.inputs,
            shape.classes,
            n_d=shape.width,
            n_a=shape.width,
            n_steps=shape.steps,
            virtual_batch_size=virtual_batch,
            mask_type="sparsemax",
            group_attention_matrix=torch.eye(shape.inputs),
        )
    return network


Part = tuple[Tensor, Tensor]
"""points (n, D) and class codes (n,)"""


def _train(network: nn.Module, recipe: TabNetRecipe, learn: Part, validate: Part, seed: int) -> None:
    """Adam until the validation loss has not fallen for `patience` epochs; the best epoch's weights are put back."""
    optimizer = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate, fused=True)
    generator = torch.Generator().manual_seed(seed)
    best_loss, best_epoch, best_state = float("inf"), 0, copy.deepcopy(network.state_dict())
    for epoch in range(recipe.max_epochs):
        network.train()
        for rows in _batches(len(learn[1]), recipe.batch, generator):
            _step(network, optimizer, learn[0][rows], learn[1][rows])
        loss = _validation_loss(network.eval(), validate)
        if loss < best_loss:
            best_loss, best_epoch, best_state = loss, epoch, copy.deepcopy(network.state_dict())
        elif epoch - best_epoch >= recipe.patience:
            break
    network.load_state_dict(best_state)


def _step(network: nn.Module, optimizer: torch.optim.Optimizer, points: Tensor, codes: Tensor) -> None:
    """One step on a batch: points (B, D), codes (B,)."""
    logits, sparsity = network(points)
    loss = cross_entropy(logits, codes) - 1e-3 * sparsity
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()


def _validation_loss(network: nn.Module, part: Part) -> float:
    with torch.inference_mode():
        return float(cross_entropy(network(part[0])[0], part[1]))


def _batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """A fresh permutation of the rows in whole batches (B,); the rest of it waits for the next epoch."""
    size = min(size, count)
    order = torch.randperm(count, generator=generator)
    return iter(torch.split(order[: count - count % size], size))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads, and their number would change the sums."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
