"""Learning rates over time, the moving average of weights, and the callback that a training run reports to."""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn


def warm_cosine(step: int, steps: int, warmup: float, final: float) -> float:
    """The share of the learning rate at `step`: linear over the first `warmup` of the steps, then a cosine to `final`.

    The paper's schedule: 20 of 800 epochs, then down to a thousandth (1e-6 for its rate of 1e-3).
    """
    warm = max(1, round(warmup * steps))
    if step < warm:
        return (step + 1) / warm
    progress = (step - warm) / max(1, steps - warm)
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


class MovingAverage:
    """The exponential moving average of a module's parameters, corrected for its start."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module, self.decay, self.count = module, decay, 0
        self.average: list[Tensor] = [parameter.detach().clone() for parameter in module.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        """Take up the module's present weights."""
        self.count += 1
        decay = min(self.decay, self.count / (self.count + 9))
        weights = [parameter.detach() for parameter in self.module.parameters()]
        torch._foreach_lerp_(self.average, weights, 1 - decay)

    @torch.no_grad()
    def apply(self) -> None:
        """Give the module the averaged weights."""
        for parameter, average in zip(self.module.parameters(), self.average, strict=True):
            parameter.copy_(average)


Report: TypeAlias = Callable[[str, int, int, float], None]
"""Called every few steps: the phase, the step reached, the number of steps, the loss or another figure of the phase."""


def silent(phase: str, step: int, steps: int, figure: float) -> None:
    """A report that goes nowhere."""
