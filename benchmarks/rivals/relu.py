"""Small ReLU networks trained on labelled data: the white box that Product_mip and CeFlow are given."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.arrays import Encoded, Targets


@dataclass(frozen=True, slots=True)
class ReluConfig:
    """Two hidden layers by default; AdamW at 1e-3 and batches of 128, as the paper trains them.

    The paper's 50 epochs are too few for a small data set and needlessly many for a large one: every network takes
    `steps`, and what it was at its best on a tenth of the data that it does not learn from is kept.
    """

    hidden: tuple[int, ...] = (128, 128)
    steps: int = 3000
    batch: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    checks: int = 20


def train_relu(points: Encoded, labels: Targets, classes: int, config: ReluConfig, seed: int) -> nn.Sequential:
    """points (n, D), labels (n,) -> a network (B, D) -> (B, classes), frozen"""
    random = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = _network(points.shape[1], classes, config.hidden)
    x, y = torch.from_numpy(points.astype(np.float32)), torch.from_numpy(labels)
    order = torch.randperm(len(x), generator=random)
    held, learned = order[: len(x) // 10], order[len(x) // 10 :]
    optimizer = torch.optim.AdamW(net.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    best, kept = float("inf"), net.state_dict()
    for step in range(1, config.steps + 1):
        rows = learned[torch.randint(len(learned), (min(config.batch, len(learned)),), generator=random)]
        loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        if step % -(-config.steps // config.checks) == 0 or step == config.steps:
            now = _loss(net, x[held], y[held]) if len(held) else 0.0
            if now <= best:
                best, kept = now, {name: value.clone() for name, value in net.state_dict().items()}
    net.load_state_dict(kept)
    net.requires_grad_(False)
    return net.eval()


def _loss(net: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.inference_mode():
        return float(nn.functional.cross_entropy(net(x), y))


def target_lead(net: nn.Module, points: Encoded, target: int) -> NDArray[np.float64]:
    """points (n, D) -> by how much the target's logit leads the next one (n,)"""
    with torch.inference_mode():
        logits: Tensor = net(torch.from_numpy(points.astype(np.float32))).double()
    others = torch.cat([logits[:, :target], logits[:, target + 1 :]], dim=1)
    lead: NDArray[np.float64] = (logits[:, target] - others.max(dim=1).values).numpy()
    return lead


def relu_layers(net: nn.Sequential) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The weights (out, in) and biases (out,) of its linear layers, first to last"""
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    return [(layer.weight.double().numpy(), layer.bias.double().numpy()) for layer in linear]


def predict_classes(net: nn.Module, points: Encoded) -> Targets:
    """points (n, D) -> (n,)"""
    with torch.inference_mode():
        logits: Tensor = net(torch.from_numpy(points.astype(np.float32)))
        classes: Targets = logits.argmax(dim=1).numpy()
        return classes


def _network(width_in: int, classes: int, hidden: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    sizes = (width_in, *hidden)
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))
