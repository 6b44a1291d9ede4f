"""TabNet: the network of pytorch-tabnet in a training loop of our own.

The library's loop collates row by row and seeds the whole process, and its predict_proba builds a DataLoader for every
call; the network itself is used as it is.
"""

import copy
import json
import math
from collections.abc import Iterator
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
from torch.optim.lr_scheduler import OneCycleLR

from ..arrays import Codes, Encoded, Probabilities
from ..device import one_thread
from ..errors import ArtifactError
from .member import hold_out, require_every_class

WEIGHTS_FILE = "tabnet.safetensors"
SHAPE_FILE = "tabnet.json"
SMALLEST_BATCH, LARGEST_BATCH = 256, 1024
SPARSITY_WEIGHT = 1e-3


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

    @property
    def width(self) -> int:
        """D"""
        return self.shape.inputs

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
            raise ArtifactError(f"TabNet's files in '{folder}' are missing or damaged; train it again.") from error
        return cls(shape, network.eval())


@dataclass(frozen=True, slots=True)
class TabNetRecipe:
    """Width, decision steps and training length; a part of the training rows is held out to find the best epoch.

    The learning rate rises to `learning_rate` and falls again over the planned length, the longer of `updates` and
    `epochs`. Training ends early when the held-out loss has not fallen for `patience` (a share) of that length.
    """

    width: int = 8
    steps: int = 3
    learning_rate: float = 0.02
    updates: int = 600
    epochs: int = 40
    patience: float = 0.4
    held_out: float = 0.15

    def fit(self, x: Encoded, y: Codes, classes: int, seed: int) -> TabNet:
        """x (n, D), y (n,) -> TabNet"""
        require_every_class(y, classes)
        shape = TabNetShape(x.shape[1], classes, self.width, self.steps)
        learn, validate = hold_out(y, self.held_out, seed)
        points, codes = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64))
        batch = min(len(learn), max(SMALLEST_BATCH, min(LARGEST_BATCH, len(learn) // 32)))
        # Small tensors gain nothing from threads, and their number would change the sums.
        with one_thread():
            network = build_network(shape, batch, seed)
            batches = Batches(points[learn], codes[learn], batch, torch.Generator().manual_seed(seed))
            _train(network, self, batches, points[validate], codes[validate])
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


@dataclass(frozen=True, eq=False)
class Batches:
    """points (n, D) and codes (n,) in shuffled batches of one size; the rest of an epoch waits for the next."""

    points: Tensor
    codes: Tensor
    size: int
    generator: torch.Generator

    def __len__(self) -> int:
        return len(self.codes) // self.size

    def epoch(self) -> Iterator[tuple[Tensor, Tensor]]:
        """points (B, D) and codes (B,), len(self) times"""
        order = torch.randperm(len(self.codes), generator=self.generator)
        for rows in torch.split(order[: len(self) * self.size], self.size):
            yield self.points[rows], self.codes[rows]


def planned_epochs(recipe: TabNetRecipe, batches: int) -> int:
    """The planned length, where an epoch has so many batches."""
    return max(recipe.epochs, math.ceil(recipe.updates / batches))


def _train(network: nn.Module, recipe: TabNetRecipe, batches: Batches, points: Tensor, codes: Tensor) -> None:
    """Train on the batches and keep the weights of the epoch with the least loss on points (v, D), codes (v,)."""
    epochs = planned_epochs(recipe, len(batches))
    optimizer = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate, fused=True)
    schedule = OneCycleLR(optimizer, recipe.learning_rate, total_steps=epochs * len(batches) + 1, pct_start=0.15)
    best_loss, best_epoch, best_state = float("inf"), 0, copy.deepcopy(network.state_dict())
    for epoch in range(epochs):
        network.train()
        for batch in batches.epoch():
            _update(network, optimizer, *batch)
            schedule.step()
        loss = _held_out_loss(network.eval(), points, codes)
        if loss < best_loss:
            best_loss, best_epoch, best_state = loss, epoch, copy.deepcopy(network.state_dict())
        elif epoch - best_epoch > recipe.patience * epochs:
            break
    network.load_state_dict(best_state)


def _update(network: nn.Module, optimizer: torch.optim.Optimizer, points: Tensor, codes: Tensor) -> None:
    """One update on a batch: points (B, D), codes (B,)."""
    logits, sparsity = network(points)
    loss = cross_entropy(logits, codes) - SPARSITY_WEIGHT * sparsity
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()


def _held_out_loss(network: nn.Module, points: Tensor, codes: Tensor) -> float:
    """points (v, D), codes (v,) -> mean cross-entropy"""
    with torch.inference_mode():
        return float(cross_entropy(network(points)[0], codes))
