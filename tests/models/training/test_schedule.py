"""Learning rates and the moving average."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.training.schedule import MovingAverage, set_rate, warm_cosine


def test_known_rates() -> None:
    rates = [warm_cosine(step, 100, 0.1, 1e-3) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == 1.0 and rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx((1 + 1e-3) / 2)
    assert warm_cosine(100, 100, 0.1, 1e-3) == pytest.approx(1e-3)


@given(steps=st.integers(1, 300), warmup=st.floats(0, 1))
def test_it_rises_to_one_then_falls_and_is_never_zero(steps: int, warmup: float) -> None:
    rates = [warm_cosine(step, steps, warmup, 1e-3) for step in range(steps)]
    top = rates.index(max(rates))
    assert max(rates) == pytest.approx(1.0) and min(rates) > 0
    assert rates[:top] == sorted(rates[:top]) and rates[top:] == sorted(rates[top:], reverse=True)


def test_set_rate_reaches_every_group() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    optimizer.add_param_group({"params": [torch.zeros(1)], "lr": 5.0})
    set_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]


def test_the_average_of_constant_weights_is_those_weights() -> None:
    module = torch.nn.Linear(3, 2)
    before = module.weight.detach().clone()
    average = MovingAverage(module, 0.9)
    for _ in range(5):
        average.update()
    average.apply()
    torch.testing.assert_close(module.weight.detach(), before)


def test_the_average_lags_then_reaches_its_decay() -> None:
    module = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.zero_()
    average = MovingAverage(module, 0.8)
    expected = 0.0
    for step in range(1, 60):
        with torch.no_grad():
            module.weight.fill_(float(step))
        average.update()
        decay = min(0.8, step / (step + 9))
        expected = decay * expected + (1 - decay) * step
    average.apply()
    assert module.weight.item() == pytest.approx(expected, rel=1e-5)
    assert module.weight.item() == pytest.approx(59 - 0.8 / 0.2, rel=1e-3)
