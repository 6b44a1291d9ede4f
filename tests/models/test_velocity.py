"""The velocity field and the box of a request."""

from dataclasses import replace

import torch
from torch import Tensor

from models.velocity import Request, Velocity
from tests.models.tiny import random_request

WIDTH, CLASSES, ROWS = 5, 3, 7


def moving_field() -> Velocity:
    torch.manual_seed(0)
    velocity = Velocity(WIDTH, CLASSES, 16)
    torch.nn.init.normal_(velocity.out.weight)
    return velocity


def speed_of(velocity: Velocity, request: Request, t: float = 0.3) -> Tensor:
    speed: Tensor = velocity(torch.tensor(t), request.point, velocity.embed(request), request.movable.float())
    return speed


def test_the_first_flow_stays_at_home() -> None:
    request = random_request(ROWS, WIDTH, CLASSES)
    speed = speed_of(Velocity(WIDTH, CLASSES, 16), request)
    assert speed.shape == (ROWS, WIDTH)
    assert not speed.any()


def test_frozen_columns_have_no_velocity() -> None:
    request = random_request(ROWS, WIDTH, CLASSES)
    speed = speed_of(moving_field(), request)
    assert torch.equal(speed != 0, request.movable)


def test_everything_in_the_request_matters() -> None:
    velocity, request = moving_field(), random_request(ROWS, WIDTH, CLASSES)
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


def test_gradients_reach_every_parameter() -> None:
    velocity, request = moving_field(), random_request(64, WIDTH, CLASSES)
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
    assert request.project(torch.tensor([[7.0, -4.0, 7.0]])).tolist() == [[1.0, 1.0, 2.0]]
    assert request.project(torch.tensor([[0.5, 3.0, 2.0]])).tolist() == [[0.5, 3.0, 2.0]]
