"""The velocity field v(t, z; context) of the generator (paper, section "Generator"; METHOD.md, sections 3, 6.1, 6.2).

The context is the request: the record, the target, which columns may move, their bounds, and log lambda_cost. It does
not change along the path, and all of it but lambda_cost is the same for all candidates of a record, so it is embedded
once a record. One field serves every lambda_cost: the whole cost-validity frontier.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..config import FlowConfig
from ..space.feasible import Bounds

TIME_FEATURES, TARGET_FEATURES = 4, 8


@dataclass(frozen=True)
class Request:
    """B requests in encoded space: point, movable, lower, upper (B, D); target, log_cost = log lambda_cost (B,).

    Requests of several paths each have an axis of 1 before the last one (`for_paths`).
    """

    point: Tensor
    target: Tensor
    log_cost: Tensor
    movable: Tensor
    lower: Tensor
    upper: Tensor

    def rows(self, rows: Tensor | slice) -> "Request":
        """rows (m,), or a slice -> m requests"""
        return Request(*(part[rows] for part in vars(self).values()))

    def for_paths(self, log_cost: Tensor) -> "Request":
        """The same requests, each with N paths at log_cost (N,): (B, 1, D) where there was (B, D)"""
        point, movable, lower, upper = (part[:, None] for part in (self.point, self.movable, self.lower, self.upper))
        return Request(point, self.target[:, None], log_cost, movable, lower, upper)

    def bounds(self) -> Bounds[Tensor]:
        """What the paths may come to; a frozen column keeps the record's own value"""
        return Bounds(*(torch.where(self.movable, side, self.point) for side in (self.lower, self.upper)))


class Velocity(nn.Module, ABC):
    """A velocity field: `GuidedVelocity` (ours) or `PlainVelocity` (the paper's). Both are zero before training."""

    state: nn.Linear
    out: nn.Linear

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.target = nn.Embedding(classes, TARGET_FEATURES)

    @abstractmethod
    def embed(self, request: Request) -> Tensor:
        """request -> its embedding (B, E), without lambda_cost"""

    @abstractmethod
    def cost_embedding(self, log_cost: Tensor) -> Tensor:
        """log_cost (...) -> (..., width), the part of the first layer that lambda_cost decides"""

    @abstractmethod
    def derivative(self, z: Tensor, embedded: Tensor, conditioning: Tensor, movable: Tensor) -> Tensor:
        """z, movable (..., D), embedded (..., E), conditioning (..., width) -> dz/dt (..., D), zero where frozen

        The conditioning is the sum of the time's and the cost's embedding; it is added to the first layer. What several
        paths have in common is broadcast.
        """

    @abstractmethod
    def path_parameters(self) -> list[nn.Parameter]:
        """The parameters that `forward` uses; the others have done their part in `embed` and `with_cost`."""

    def with_cost(self, embedded: Tensor, log_cost: Tensor) -> Tensor:
        """embedded (..., E), log_cost (...) -> (..., E) with the cost's embedding in it, as `forward` wants it"""
        cost_embedding = self.cost_embedding(log_cost)
        return embedded + functional.pad(cost_embedding, (0, embedded.shape[-1] - cost_embedding.shape[-1]))

    def time_embedding(self, times: Tensor) -> Tensor:
        """times (...) -> (..., width), the part of the first layer that the time decides"""
        clock = torch.stack([times, times * times, torch.sin(math.pi * times), torch.cos(math.pi * times)], dim=-1)
        time_part: Tensor = clock @ self.state.weight[:, -TIME_FEATURES:].T
        return time_part

    def forward(self, t: Tensor, z: Tensor, embedded: Tensor, movable: Tensor) -> Tensor:
        """t (), z (..., D), embedded (..., E) with the cost, movable (..., D) -> dz/dt (..., D)"""
        return self.derivative(z, embedded, self.time_embedding(t.to(z.dtype)), movable)

    def request_features(self, request: Request) -> Tensor:
        """request -> (B, 4 * D + TARGET_FEATURES), the request in numbers, without lambda_cost"""
        room_down = (request.point - request.lower).clamp(-1.0, 2.0)
        room_up = (request.upper - request.point).clamp(-1.0, 2.0)
        movable, target = request.movable.to(request.point.dtype), self.target(request.target)
        return torch.cat([request.point, movable, room_down, room_up, target], dim=1)


class GuidedVelocity(Velocity):
    """A large network reads the request once; a small one follows the path, shifted in each layer by what was read.

    This is conditioning by feature-wise shifts, as in FiLM (Perez et al., 2018, arXiv:1709.07871) without its scales.
    The many paths of a record cost little more than one.
    """

    def __init__(self, width_in: int, classes: int, width: int, context: int) -> None:
        super().__init__(classes)
        self.sizes = [width, width, width_in]
        self.context = nn.Sequential(
            nn.Linear(4 * width_in + TARGET_FEATURES, context), nn.SiLU(), nn.Linear(context, context), nn.SiLU()
        )
        self.guide = nn.Linear(context, sum(self.sizes))
        self.price = nn.Linear(1, width, bias=False)  # of log lambda_cost; the name stands in saved weights
        self.state = nn.Linear(width_in + TIME_FEATURES, width, bias=False)
        self.middle = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width_in, bias=False)
        with torch.no_grad():
            self.out.weight.zero_()
            self.guide.weight[2 * width :] = 0.0
            self.guide.bias[2 * width :] = 0.0

    def embed(self, request: Request) -> Tensor:
        embedded: Tensor = self.guide(self.context(self.request_features(request)))
        return embedded

    def cost_embedding(self, log_cost: Tensor) -> Tensor:
        return log_cost[..., None] * self.price.weight[:, 0]

    def derivative(self, z: Tensor, embedded: Tensor, conditioning: Tensor, movable: Tensor) -> Tensor:
        first, second, drift = torch.split(embedded, self.sizes, dim=-1)
        inplace = not torch.is_grad_enabled()
        hidden = functional.linear(z, self.state.weight[:, :-TIME_FEATURES]).add_(first).add_(conditioning)
        hidden = functional.linear(functional.silu(hidden, inplace=inplace), self.middle.weight).add_(second)
        return functional.linear(functional.silu(hidden, inplace=inplace), self.out.weight).add_(drift).mul_(movable)

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
        return functional.linear(self.request_features(request), self.context.weight[:, :-1], self.context.bias)

    def cost_embedding(self, log_cost: Tensor) -> Tensor:
        return log_cost[..., None] * self.context.weight[:, -1]

    def derivative(self, z: Tensor, embedded: Tensor, conditioning: Tensor, movable: Tensor) -> Tensor:
        hidden = functional.linear(z, self.state.weight[:, :-TIME_FEATURES]).add_(embedded).add_(conditioning)
        speed: Tensor = self.out(self.body(hidden)) * movable
        return speed

    def path_parameters(self) -> list[nn.Parameter]:
        return [parameter for layer in (self.state, self.body, self.out) for parameter in layer.parameters()]


def make_velocity(width_in: int, classes: int, config: FlowConfig) -> Velocity:
    """A field for D = width_in columns, of the form and the widths that the settings say."""
    if config.context is None:
        return PlainVelocity(width_in, classes, config.width)
    return GuidedVelocity(width_in, classes, config.width, config.context)
