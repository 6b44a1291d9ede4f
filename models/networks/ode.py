"""Solving the augmented ODE: dz/dt = v(t, z), de/dt = |v|^2 (paper, equation aug_ode_cost).

Serving uses a fixed grid: an adaptive solver takes one error norm over the whole batch, so that a record's path would
depend on its neighbours.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torchdiffeq import odeint, odeint_adjoint

from ..config import FlowConfig
from ..errors import SolverError
from ..space.feasible import Bounds
from .velocity import Request, Velocity


@dataclass(frozen=True)
class Path:
    """end (..., D), energy (...) = e(1), states (T, ..., D) at equal times from 0 to 1, evaluations of the field."""

    end: Tensor
    energy: Tensor
    states: Tensor
    evaluations: int


def solve(
    velocity: Velocity, request: Request, start: Tensor, config: FlowConfig, embedded: Tensor | None = None
) -> Path:
    """Carry start (..., D) along the field from t = 0 to t = 1, within the request's box.

    embedded (..., E): the embedding of the request, where it is known already.
    """
    embedded = velocity.embed(request) if embedded is None else embedded
    if config.solver == "dopri5":
        return _solve_adaptive(velocity, request, start, config, embedded)
    bounds = request.bounds()
    energy, states = start.new_zeros(start.shape[:-1]), [project(bounds, start)]
    for z, speed in _walk(velocity, request, states[0], bounds, config, embedded):
        energy = energy + speed.square().sum(dim=-1) / config.steps
        states.append(z)
    return Path(states[-1], energy, torch.stack(states), config.steps * RULES[config.solver].evaluations)


def project(bounds: Bounds[Tensor], state: Tensor) -> Tensor:
    """state (..., D) -> the nearest state within the bounds"""
    return torch.clamp(state, bounds.lower, bounds.upper)


def integrate_end(velocity: Velocity, request: Request, start: Tensor, config: FlowConfig, embedded: Tensor) -> Tensor:
    """Where `solve` ends (..., D), without the cost of the way and its states: all that a search asks for"""
    if config.solver == "dopri5":
        return _solve_adaptive(velocity, request, start, config, embedded).end
    bounds = request.bounds()
    *_, (end, _) = _walk(velocity, request, project(bounds, start), bounds, config, embedded)
    return end


def _walk(
    velocity: Velocity, request: Request, z: Tensor, bounds: Bounds[Tensor], config: FlowConfig, embedded: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Equal steps from z (..., D): where each one leads, within the bounds, and the increment of that step (..., D)"""
    movable, rule = request.movable.to(z.dtype), RULES[config.solver]
    width = 1.0 / config.steps
    times = [(i + stage) * width for i in range(config.steps) for stage in rule.stages]
    time_parts = velocity.time_embedding(z.new_tensor(times)).reshape(config.steps, len(rule.stages), -1)
    cost_embedding = velocity.cost_embedding(request.log_cost)
    for time_part in time_parts:

        def field(stage: int, z: Tensor, time_part: Tensor = time_part) -> Tensor:
            return velocity.derivative(z, embedded, cost_embedding + time_part[stage], movable)

        speed = rule.increment(field, z, width)
        z = project(bounds, torch.add(z, speed, alpha=width))
        yield z, speed


Field = Callable[[int, Tensor], Tensor]
"""(stage, z (B, D)) -> dz/dt (B, D), at the time of that stage of a rule"""


def _euler(field: Field, z: Tensor, width: float) -> Tensor:
    return field(0, z)


def _midpoint(field: Field, z: Tensor, width: float) -> Tensor:
    return field(1, torch.add(z, field(0, z), alpha=width / 2))


def _ralston3(field: Field, z: Tensor, width: float) -> Tensor:
    """Ralston's method of third order (1962): the least error bound among those of three stages"""
    k1 = field(0, z)
    k2 = field(1, torch.add(z, k1, alpha=width / 2))
    k3 = field(2, torch.add(z, k2, alpha=0.75 * width))
    return torch.add(k1 * (2 / 9), k2, alpha=3 / 9).add_(k3, alpha=4 / 9)


def _rk4(field: Field, z: Tensor, width: float) -> Tensor:
    k1 = field(0, z)
    k2 = field(1, z + width / 2 * k1)
    k3 = field(1, z + width / 2 * k2)
    k4 = field(2, z + width * k3)
    return (k1 + 2 * k2 + 2 * k3 + k4) / 6


@dataclass(frozen=True)
class RungeKuttaRule:
    """An explicit Runge-Kutta method: its increment over a step, the times of its stages, its evaluations."""

    increment: Callable[[Field, Tensor, float], Tensor]
    stages: tuple[float, ...]
    evaluations: int


RULES = {
    "euler": RungeKuttaRule(_euler, (0.0,), 1),
    "midpoint": RungeKuttaRule(_midpoint, (0.0, 0.5), 2),
    "ralston3": RungeKuttaRule(_ralston3, (0.0, 0.5, 0.75), 3),
    "rk4": RungeKuttaRule(_rk4, (0.0, 0.5, 1.0), 4),
}


@contextmanager
def divergence_named() -> Iterator[None]:
    """Inside, a solve that diverges is a SolverError, and so is the adjoint's solve on the way back."""
    try:
        yield
    except AssertionError as error:  # torchdiffeq says it this way, with the whole state in its message
        advice = "use a fixed-step solver or a lower learning rate"
        raise SolverError(f"The adaptive solver diverged: its step or its state left the numbers; {advice}.") from error


class _Augmented(nn.Module):
    """The field of [z, e] as torchdiffeq asks for it; it counts, so that a stiff field cannot run for ever."""

    def __init__(self, velocity: Velocity, embedded: Tensor, movable: Tensor, limit: int) -> None:
        super().__init__()
        self.velocity = velocity
        self.embedded, self.movable, self.limit, self.evaluations = embedded, movable, limit, 0

    def forward(self, t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """t (), state (z (..., D), e (...)) -> their derivatives"""
        self.evaluations += 1
        if self.evaluations > self.limit:
            fact = f"used its {self.limit} evaluations and had reached t = {float(t.detach()):.3f}"
            raise SolverError(f"The adaptive solver {fact}; use a fixed-step solver.")
        speed = self.velocity(t, state[0], self.embedded, self.movable)
        return speed, speed.square().sum(dim=-1)


def _solve_adaptive(velocity: Velocity, request: Request, start: Tensor, config: FlowConfig, embedded: Tensor) -> Path:
    """Dormand-Prince with one error norm for the batch; the box is imposed on the states that it returns."""
    bounds = request.bounds()
    start = project(bounds, start)
    request_features = velocity.with_cost(embedded, request.log_cost)
    field = _Augmented(velocity, request_features, request.movable.to(start.dtype), config.max_evaluations)
    integrate = odeint
    if config.adjoint and torch.is_grad_enabled():
        # The embedding carries the gradient of the layers that made it; naming them as well would count it twice.
        integrate = partial(odeint_adjoint, adjoint_params=(*velocity.path_parameters(), field.embedded))
    times = torch.linspace(0.0, 1.0, config.steps + 1, dtype=start.dtype, device=start.device)
    initial = (start, start.new_zeros(start.shape[:-1]))
    with divergence_named():
        states, energies = integrate(
            field, initial, times, method="dopri5", rtol=config.tolerance, atol=config.tolerance
        )
    states = project(bounds, states)
    return Path(states[-1], energies[-1], states, field.evaluations)
