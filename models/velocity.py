"""The velocity field v(t, z; context) of the generator.

The context is what the field knows of a request: the record, the target, which columns may move, the box that they may
move in, and log lambda_cost (the robustness dial). It does not change along the path, and all of it but the dial is the
same for all candidates of a record: it is embedded once a record.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.config import FlowConfig

TIME_FEATURES, TARGET_FEATURES = 4, 8


@dataclass(frozen=True)
class Request:
    """B requests in encoded space: point, movable, lower, upper (B, D); target, log_cost = log lambda_cost (B,)."""

    point: Tensor
    target: Tensor
    log_cost: Tensor
    movable: Tensor
    lower: Tensor
    upper: Tensor

    def rows(self, rows: Tensor) -> "Request":
        """rows (m,) -> m requests"""
        return Request(*(part.index_select(0, rows) for part in vars(self).values()))

    def project(self, state: Tensor) -> Tensor:
        """state (B, D) -> the nearest state in the box; a frozen column goes back to the record's own value"""
        boxed = torch.minimum(torch.maximum(state, self.lower), self.upper)
        return torch.where(self.movable, boxed, self.point)


class Velocity(nn.Module, ABC):
    """What two networks have in common: ours, `GuidedVelocity`, and `PlainVelocity`. Both begin at a standstill."""

    state: nn.Linear
    out: nn.Linear

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.target = nn.Embedding(classes, TARGET_FEATURES)

    @abstractmethod
    def embed(self, request: Request) -> Tensor:
        """request -> (B, E): what the field knows of it, the dial left out"""

    @abstractmethod
    def at_price(self, embedded: Tensor, log_cost: Tensor) -> Tensor:
        """embedded (B, E), log_cost (B,) -> (B, E): with the dial"""

    @abstractmethod
    def move(self, z: Tensor, embedded: Tensor, tick: Tensor, movable: Tensor) -> Tensor:
        """z (B, D), embedded (B, E), tick (width,), movable (B, D) -> dz/dt (B, D), zero where nothing may move"""

    @abstractmethod
    def path_parameters(self) -> list[nn.Parameter]:
        """The parameters that `forward` uses; the others have done their part in `context_of`."""

    def context_of(self, request: Request) -> Tensor:
        """request -> (B, E): all that the field knows of it"""
        return self.at_price(self.embed(request), request.log_cost)

    def tick(self, times: Tensor) -> Tensor:
        """times (...) -> (..., width), the part of the first layer that only the clock decides"""
        clock = torch.stack([times, times * times, torch.sin(math.pi * times), torch.cos(math.pi * times)], dim=-1)
        ticked: Tensor = clock @ self.state.weight[:, -TIME_FEATURES:].T
        return ticked

    def forward(self, t: Tensor, z: Tensor, embedded: Tensor, movable: Tensor) -> Tensor:
        """t (), z (B, D), embedded (B, E), movable (B, D) -> dz/dt (B, D)"""
        return self.move(z, embedded, self.tick(t.to(z.dtype)), movable)

    def known(self, request: Request) -> Tensor:
        """request -> (B, 4 * D + TARGET_FEATURES), the request in numbers, the dial left out"""
        room_down = (request.point - request.lower).clamp(-1.0, 2.0)
        room_up = (request.upper - request.point).clamp(-1.0, 2.0)
        movable, target = request.movable.to(request.point.dtype), self.target(request.target)
        return torch.cat([request.point, movable, room_down, room_up, target], dim=1)


class GuidedVelocity(Velocity):
    """A large network reads the request, once; a small one follows the path, and is told in each layer what was read.

    So the many paths of a record cost little more than one.
    """

    def __init__(self, width_in: int, classes: int, width: int, context: int) -> None:
        super().__init__(classes)
        self.sizes = [width, width, width_in]
        self.context = nn.Sequential(
            nn.Linear(4 * width_in + TARGET_FEATURES, context), nn.SiLU(), nn.Linear(context, context), nn.SiLU()
        )
        self.guide = nn.Linear(context, sum(self.sizes))
        self.price = nn.Linear(1, width, bias=False)
        self.state = nn.Linear(width_in + TIME_FEATURES, width, bias=False)
        self.middle = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width_in, bias=False)
        with torch.no_grad():
            self.out.weight.zero_()
            self.guide.weight[2 * width :] = 0.0
            self.guide.bias[2 * width :] = 0.0

    def embed(self, request: Request) -> Tensor:
        embedded: Tensor = self.guide(self.context(self.known(request)))
        return embedded

    def at_price(self, embedded: Tensor, log_cost: Tensor) -> Tensor:
        weight = functional.pad(self.price.weight.T, (0, embedded.shape[1] - self.sizes[0]))
        return torch.addmm(embedded, log_cost[:, None], weight)

    def move(self, z: Tensor, embedded: Tensor, tick: Tensor, movable: Tensor) -> Tensor:
        first, second, drift = torch.split(embedded, self.sizes, dim=1)
        spare = not torch.is_grad_enabled()
        hidden = functional.silu(torch.addmm(first + tick, z, self.state.weight[:, :-TIME_FEATURES].T), inplace=spare)
        hidden = functional.silu(torch.addmm(second, hidden, self.middle.weight.T), inplace=spare)
        return torch.addmm(drift, hidden, self.out.weight.T) * movable

    def path_parameters(self) -> list[nn.Parameter]:
        return [parameter for layer in (self.state, self.middle, self.out) for parameter in layer.parameters()]


class PlainVelocity(Velocity):
    """One network of three hidden layers; the context enters its first. Settings of the paper, and older models."""

    def __init__(self, width_in: int, classes: int, width: int) -> None:
        super().__init__(classes)
        self.context = nn.Linear(4 * width_in + TARGET_FEATURES + 1, width)
        self.state = nn.Linear(width_in + TIME_FEATURES, width, bias=False)
        self.body = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, width_in)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def embed(self, request: Request) -> Tensor:
        return functional.linear(self.known(request), self.context.weight[:, :-1], self.context.bias)

    def at_price(self, embedded: Tensor, log_cost: Tensor) -> Tensor:
        return embedded + log_cost[:, None] * self.context.weight[:, -1]

    def move(self, z: Tensor, embedded: Tensor, tick: Tensor, movable: Tensor) -> Tensor:
        hidden = torch.addmm(embedded + tick, z, self.state.weight[:, :-TIME_FEATURES].T)
        speed: Tensor = self.out(self.body(hidden)) * movable
        return speed

    def path_parameters(self) -> list[nn.Parameter]:
        return [parameter for layer in (self.state, self.body, self.out) for parameter in layer.parameters()]


def make_velocity(width_in: int, classes: int, config: FlowConfig) -> Velocity:
    """A field for D = width_in columns, of the form and the widths that the settings say."""
    if config.context is None:
        return PlainVelocity(width_in, classes, config.width)
    return GuidedVelocity(width_in, classes, config.width, config.context)
