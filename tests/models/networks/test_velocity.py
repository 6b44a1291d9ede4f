"""The velocity field and the box of a request."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from models.networks.ode import project
from models.networks.velocity import GuidedVelocity, PlainVelocity, Request, Velocity
from tests.models.tiny import random_request

WIDTH, CLASSES, ROWS = 5, 3, 7
Make = Callable[[], Velocity]
EVERY_FIELD = pytest.mark.parametrize(
    "make",
    [lambda: GuidedVelocity(WIDTH, CLASSES, 16, 24), lambda: PlainVelocity(WIDTH, CLASSES, 16)],
    ids=["guided", "plain"],
)


def moving(make: Make) -> Velocity:
    torch.manual_seed(0)
    velocity = make()
    torch.nn.init.normal_(velocity.out.weight)
    return velocity


def context_of(velocity: Velocity, request: Request) -> Tensor:
    return velocity.with_cost(velocity.embed(request), request.log_cost)


def speed_of(velocity: Velocity, request: Request, t: float = 0.3) -> Tensor:
    speed: Tensor = velocity(torch.tensor(t), request.point, context_of(velocity, request), request.movable.float())
    return speed


@EVERY_FIELD
def test_the_first_flow_stays_at_home(make: Make) -> None:
    request = random_request(ROWS, WIDTH, CLASSES)
    speed = speed_of(make(), request)
    assert speed.shape == (ROWS, WIDTH)
    assert not speed.any()


@EVERY_FIELD
def test_frozen_columns_have_no_velocity(make: Make) -> None:
    request = random_request(ROWS, WIDTH, CLASSES)
    speed = speed_of(moving(make), request)
    assert torch.equal(speed != 0, request.movable)


@EVERY_FIELD
def test_everything_in_the_request_matters(make: Make) -> None:
    velocity, request = moving(make), random_request(ROWS, WIDTH, CLASSES)
    speed = speed_of(velocity, request)
    others = [
        replace(request, point=request.point + 0.1),
        replace(request, target=(request.target + 1) % CLASSES),
        replace(request, log_cost=request.log_cost + 1),
        replace(request, lower=request.point - 0.1),
        replace(request, upper=request.point + 0.1),
    ]
    for other in others:
        assert not torch.allclose(speed_of(velocity, other), speed)
    assert not torch.allclose(speed_of(velocity, request, t=0.9), speed)


@EVERY_FIELD
def test_a_record_is_embedded_once_for_all_prices(make: Make) -> None:
    velocity, request = moving(make), random_request(ROWS, WIDTH, CLASSES)
    other = replace(request, log_cost=request.log_cost + 1)
    assert torch.equal(velocity.embed(request), velocity.embed(other))
    assert not torch.allclose(context_of(velocity, request), context_of(velocity, other))
    rows = torch.tensor([3, 3, 0])
    torch.testing.assert_close(context_of(velocity, request.rows(rows)), context_of(velocity, request)[rows])


@EVERY_FIELD
def test_without_gradients_the_speed_is_the_same(make: Make) -> None:
    velocity, request = moving(make), random_request(ROWS, WIDTH, CLASSES)
    request_features, before = context_of(velocity, request).detach(), context_of(velocity, request).detach()
    with torch.inference_mode():
        speed = velocity(torch.tensor(0.3), request.point, request_features, request.movable.float())
    assert torch.equal(request_features, before), "what is computed in place must not be what was given"
    assert torch.equal(speed, speed_of(velocity, request))


@EVERY_FIELD
def test_gradients_reach_every_parameter(make: Make) -> None:
    velocity, request = moving(make), random_request(64, WIDTH, CLASSES)
    torch.autograd.backward(speed_of(velocity, request).square().sum())
    for name, parameter in velocity.named_parameters():
        assert parameter.grad is not None and bool((parameter.grad != 0).any()), name


def test_projection() -> None:
    request = Request(
        point=torch.tensor([[0.0, 1.0, 2.0]]),
        target=torch.tensor([0]),
        log_cost=torch.tensor([0.0]),
        movable=torch.tensor([[True, True, False]]),
        lower=torch.tensor([[-1.0, 1.0, -9.0]]),
        upper=torch.tensor([[1.0, 5.0, 9.0]]),
    )
    bounds = request.bounds()
    assert project(bounds, torch.tensor([[7.0, -4.0, 7.0]])).tolist() == [[1.0, 1.0, 2.0]]
    assert project(bounds, torch.tensor([[0.5, 3.0, 2.0]])).tolist() == [[0.5, 3.0, 2.0]]


@EVERY_FIELD
def test_several_paths_of_a_request_are_those_of_as_many_requests(make: Make) -> None:
    velocity, request = moving(make), random_request(ROWS, WIDTH, CLASSES)
    dials, paths = torch.tensor([-2.0, 0.0, 1.0]), torch.randn(ROWS, 3, WIDTH)
    every, rows = request.for_paths(dials), torch.arange(ROWS).repeat_interleave(3)
    shared = velocity.derivative(
        paths, velocity.embed(request)[:, None], velocity.cost_embedding(dials), every.movable.float()
    )
    alone = replace(request.rows(rows), log_cost=dials.repeat(ROWS))
    conditioning, flat = velocity.cost_embedding(alone.log_cost), paths.flatten(0, 1)
    each = velocity.derivative(flat, velocity.embed(alone), conditioning, alone.movable.float())
    torch.testing.assert_close(shared.flatten(0, 1), each)
    torch.testing.assert_close(project(every.bounds(), paths).flatten(0, 1), project(alone.bounds(), flat))
