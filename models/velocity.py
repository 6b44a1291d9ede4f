"""The velocity field v(t, z; context) of the generator.

The context is what the field knows of a request: the record, the target, log lambda_cost (the robustness dial), which
columns may move, and the box that they may move in. It does not change along the path, so its share of the first
layer is computed once a solve.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

TIME_FEATURES = 4


@dataclass(frozen=True)
class Request:
    """B requests in encoded space: point, movable, lower, upper (B, D); target, log_cost = log lambda_cost (B,)."""

    point: Tensor
    target: Tensor
    log_cost: Tensor
    movable: Tensor
    lower: Tensor
    upper: Tensor

    def project(self, state: Tensor) -> Tensor:
        """state (B, D) -> the nearest state in the box; a frozen column goes back to the record's own value"""
        boxed = torch.minimum(torch.maximum(state, self.lower), self.upper)
        return torch.where(self.movable, boxed, self.point)


class Velocity(nn.Module):
    """A plain network of three hidden layers; the layer after them starts at zero, so the first flow stays at home."""

    def __init__(self, width_in: int, classes: int, width: int) -> None:
        super().__init__()
        self.target = nn.Embedding(classes, 8)
        self.context = nn.Linear(4 * width_in + 8 + 1, width)
        self.state = nn.Linear(width_in + TIME_FEATURES, width, bias=False)
        self.body = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, width_in)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def embed(self, request: Request) -> Tensor:
        """request -> (B, width), the part of the first layer that does not change along the path"""
        room_down = (request.point - request.lower).clamp(-1.0, 2.0)
        room_up = (request.upper - request.point).clamp(-1.0, 2.0)
        known = [request.point, request.movable.to(request.point.dtype), room_down, room_up]
        known += [self.target(request.target), request.log_cost[:, None]]
        embedded: Tensor = self.context(torch.cat(known, dim=1))
        return embedded

    def path_parameters(self) -> list[nn.Parameter]:
        """The parameters that `forward` uses; the others have done their part in `embed`."""
        return [parameter for layer in (self.state, self.body, self.out) for parameter in layer.parameters()]

    def tick(self, times: Tensor) -> Tensor:
        """times (...) -> (..., width), the part of the first layer that only the clock decides"""
        clock = torch.stack([times, times * times, torch.sin(math.pi * times), torch.cos(math.pi * times)], dim=-1)
        ticked: Tensor = clock @ self.state.weight[:, -TIME_FEATURES:].T
        return ticked

    def move(self, z: Tensor, known: Tensor, movable: Tensor) -> Tensor:
        """z (B, D), known (B, width) = embedded + tick, movable (B, D) -> dz/dt (B, D), zero where nothing may move"""
        hidden = torch.addmm(known, z, self.state.weight[:, :-TIME_FEATURES].T)
        speed: Tensor = self.out(self.body(hidden)) * movable
        return speed

    def forward(self, t: Tensor, z: Tensor, embedded: Tensor, movable: Tensor) -> Tensor:
        """t (), z (B, D), embedded (B, width), movable (B, D) -> dz/dt (B, D)"""
        return self.move(z, embedded + self.tick(t.to(z.dtype)), movable)
