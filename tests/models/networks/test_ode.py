"""Solving the augmented ODE, by every solver."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.config import FlowConfig, Solver
from models.errors import SolverError
from models.networks.ode import RULES, Path, divergence_named, integrate_end, solve
from models.networks.velocity import GuidedVelocity, Request, Velocity
from tests.models.tiny import random_request

WIDTH, CLASSES = 4, 2
SOLVERS: tuple[Solver, ...] = get_args(Solver)
EVERY_SOLVER = pytest.mark.parametrize("solver", SOLVERS)
FIXED = [solver for solver in SOLVERS if solver != "dopri5"]


def field(seed: int = 0, size: float = 1.0, dtype: torch.dtype = torch.float32) -> GuidedVelocity:
    """A field that moves, smooth where `size` is about 1."""
    torch.manual_seed(seed)
    velocity = GuidedVelocity(WIDTH, CLASSES, 16, 16)
    torch.nn.init.normal_(velocity.out.weight, std=size)
    return velocity.to(dtype)


def wide(request: Request) -> Request:
    """The request with a box that nothing reaches."""
    return replace(request, lower=request.lower - 1e3, upper=request.upper + 1e3)


def run(velocity: Velocity, request: Request, config: FlowConfig) -> Path:
    with torch.no_grad():
        return solve(velocity, request, request.point, config)


@EVERY_SOLVER
def test_a_constant_field_ends_at_start_plus_v_for_the_energy_of_v(solver: Solver) -> None:
    speed = torch.tensor([0.5, -1.0, 0.25, 2.0])
    velocity = GuidedVelocity(WIDTH, CLASSES, 16, 16)
    with torch.no_grad():
        velocity.guide.bias[-WIDTH:] = speed
    request = wide(replace(random_request(3, WIDTH, CLASSES), movable=torch.ones(3, WIDTH, dtype=torch.bool)))
    path = run(velocity, request, FlowConfig(solver=solver, steps=4))
    assert path.end.shape == (3, WIDTH) and path.energy.shape == (3,) and path.states.shape == (5, 3, WIDTH)
    torch.testing.assert_close(path.end, request.point + speed)
    torch.testing.assert_close(path.energy, speed.square().sum().expand(3))
    for step, state in enumerate(path.states):
        torch.testing.assert_close(state, request.point + speed * step / 4)


@EVERY_SOLVER
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_a_frozen_column_never_moves_and_no_state_leaves_the_box(solver: Solver, seed: int) -> None:
    request = random_request(5, WIDTH, CLASSES, seed)
    start = request.point + 10.0 * torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        path = solve(field(seed, 2.0), request, start, FlowConfig(solver=solver, steps=3))
    for state in (*path.states, path.end):
        assert torch.equal(state[~request.movable], request.point[~request.movable])
        assert bool((state >= request.lower).all()) and bool((state <= request.upper).all())
    assert not torch.equal(path.end, request.point)


@EVERY_SOLVER
def test_several_paths_of_a_request_end_where_they_would_alone(solver: Solver) -> None:
    velocity, request = field(), random_request(5, WIDTH, CLASSES)
    config = FlowConfig(solver=solver, steps=2, tolerance=1e-6)
    dials = torch.tensor([-1.0, 0.5, 2.0])
    start = request.point[:, None] + 0.3 * torch.randn(5, 3, WIDTH, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        embedded = velocity.embed(request)[:, None]
        together = solve(velocity, request.for_paths(dials), start, config, embedded)
        assert torch.equal(integrate_end(velocity, request.for_paths(dials), start, config, embedded), together.end)
        for path in range(3):
            alone = solve(velocity, replace(request, log_cost=dials[path].expand(5)), start[:, path], config)
            # An adaptive solver chooses its steps for the batch: there only the tolerance is shared.
            near = 1e-3 if solver == "dopri5" else 1e-5
            torch.testing.assert_close(together.end[:, path], alone.end, rtol=near, atol=near)
            torch.testing.assert_close(together.energy[:, path], alone.energy, rtol=near, atol=near)
            torch.testing.assert_close(together.states[:, :, path], alone.states, rtol=near, atol=near)


def test_dopri5_agrees_with_rk4() -> None:
    request = wide(random_request(6, WIDTH, CLASSES))
    adaptive = run(field(), request, FlowConfig(solver="dopri5", tolerance=1e-5))
    fixed = run(field(), request, FlowConfig(solver="rk4", steps=32))
    torch.testing.assert_close(adaptive.end, fixed.end, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(adaptive.energy, fixed.energy, rtol=1e-3, atol=1e-3)
    assert float((adaptive.end - request.point).abs().max()) > 0.3


@pytest.mark.parametrize(("solver", "order"), [("euler", 1), ("midpoint", 2), ("ralston3", 3), ("rk4", 4)])
def test_a_fixed_solver_has_its_order(solver: Solver, order: int) -> None:
    """Half the step, and the error falls by two to the order."""
    velocity, request = field(dtype=torch.float64), wide(random_request(6, WIDTH, CLASSES, dtype=torch.float64))
    exact = run(velocity, request, FlowConfig(solver="rk4", steps=400)).end
    errors = [run(velocity, request, FlowConfig(solver=solver, steps=n)).end - exact for n in (20, 40)]
    coarse, fine = (float(error.abs().max()) for error in errors)
    assert 0.8 * 2**order < coarse / fine < 1.25 * 2**order


def test_energy_is_the_integral_of_the_squared_speed() -> None:
    velocity, request = field(), wide(random_request(6, WIDTH, CLASSES))
    path = run(velocity, request, FlowConfig(solver="rk4", steps=64))
    pieces = (path.states[1:] - path.states[:-1]).square().sum(dim=2) * 64
    torch.testing.assert_close(path.energy, pieces.sum(dim=0), rtol=1e-3, atol=1e-3)
    straight = (path.end - request.point).square().sum(dim=1)
    assert bool((path.energy >= straight - 1e-4).all())


def gradients(velocity: Velocity, request: Request, config: FlowConfig) -> list[Tensor]:
    path = solve(velocity, request, request.point, config)
    return list(torch.autograd.grad(path.end.square().sum() + path.energy.sum(), list(velocity.parameters())))


def test_adjoint_gradients_equal_direct_ones() -> None:
    velocity, request = field(dtype=torch.float64), wide(random_request(6, WIDTH, CLASSES, dtype=torch.float64))
    config = FlowConfig(solver="dopri5", tolerance=1e-8)
    direct = gradients(velocity, request, config)
    adjoint = gradients(velocity, request, replace(config, adjoint=True))
    for name, one, other in zip(dict(velocity.named_parameters()), direct, adjoint, strict=True):
        assert bool((one != 0).any()), name
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5), name


@EVERY_SOLVER
def test_gradients_reach_every_parameter(solver: Solver) -> None:
    request = wide(random_request(32, WIDTH, CLASSES))
    for gradient in gradients(field(), request, FlowConfig(solver=solver)):
        assert bool((gradient != 0).any()) and bool(gradient.isfinite().all())


@pytest.mark.parametrize("solver", FIXED)
def test_evaluations_are_counted(solver: Solver, monkeypatch: pytest.MonkeyPatch) -> None:
    velocity = field()
    calls, derivative = [], velocity.derivative

    def counted(z: Tensor, embedded: Tensor, time_embedding: Tensor, movable: Tensor) -> Tensor:
        calls.append(1)
        return derivative(z, embedded, time_embedding, movable)

    monkeypatch.setattr(velocity, "derivative", counted)
    path = run(velocity, random_request(2, WIDTH, CLASSES), FlowConfig(solver=solver, steps=5))
    assert path.evaluations == len(calls) == 5 * RULES[solver].evaluations


def test_the_cap_on_evaluations_is_a_solver_error() -> None:
    config = FlowConfig(solver="dopri5", tolerance=1e-6, max_evaluations=20)
    with pytest.raises(SolverError, match="used its 20 evaluations and had reached t = 0"):
        run(field(size=30.0), wide(random_request(4, WIDTH, CLASSES)), config)


def test_the_cap_holds_on_the_way_back_too() -> None:
    velocity, request = field(), wide(random_request(4, WIDTH, CLASSES))
    config = FlowConfig(solver="dopri5", tolerance=1e-6, adjoint=True)
    forward = run(velocity, request, config).evaluations
    path = solve(velocity, request, request.point, replace(config, max_evaluations=forward + 3))
    with pytest.raises(SolverError, match=f"its {forward + 3} evaluations"):
        torch.autograd.backward(path.end.sum())


def test_divergence_is_a_solver_error_of_one_line() -> None:
    velocity = field()
    with torch.no_grad():
        velocity.guide.bias.fill_(torch.inf)
    with pytest.raises(SolverError, match="diverged: its step or its state") as caught:
        run(velocity, random_request(4, WIDTH, CLASSES), FlowConfig(solver="dopri5"))
    assert "\n" not in str(caught.value) and "tensor" not in str(caught.value)


def test_divergence_on_the_way_back_is_a_solver_error() -> None:
    request = wide(random_request(4, WIDTH, CLASSES))
    path = solve(field(), request, request.point, FlowConfig(solver="dopri5", adjoint=True))
    with pytest.raises(SolverError, match="diverged"), divergence_named():
        torch.autograd.backward(path.end.sum() * torch.nan)
