"""The grid of a step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.data.grid import plain, snap, snap_down, snap_up, snap_value
from tests.models.schemas import STEPS

numbers = st.floats(-1e6, 1e6)


def test_snap_gives_the_float_that_the_text_reads_as() -> None:
    assert [snap_value(k * 0.1, 0.1) for k in range(10)] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert snap(np.array([0.07 + 1e-12, -0.004, np.nan]), 0.01).tolist()[:2] == [0.07, 0.0]


def test_snap_never_gives_a_negative_zero() -> None:
    assert str(snap_value(-0.3, 1.0)) == "0.0"
    assert str(snap(np.array([-0.3]), 1.0)[0]) == "0.0"


@given(numbers, st.sampled_from(STEPS))
def test_snapping_again_changes_nothing_and_both_forms_agree(value: float, step: float) -> None:
    once = snap_value(value, step)
    assert snap_value(once, step) == once
    assert snap(np.array([value]), step)[0] == once


@given(numbers, st.sampled_from(STEPS))
def test_snapping_inward_brackets_the_value(value: float, step: float) -> None:
    low, high = snap_down(value, step), snap_up(value, step)
    assert low <= value + 1e-8 * step and high >= value - 1e-8 * step
    assert 0 <= high - low < 1.5 * step
    assert snap_value(low, step) == low and snap_value(high, step) == high


def test_snapping_inward_keeps_a_grid_value() -> None:
    assert snap_up(0.7, 0.1) == 0.7
    assert snap_up(0.71, 0.1) == 0.8
    assert snap_down(0.79, 0.1) == 0.7
    assert snap_up(-0.5, 1.0) == 0.0
    third = snap_value(0.9, 0.3)  # 0.8999999999999999: the grid of such a step is not what people write
    assert third < 0.9 and snap_up(0.9, 0.3) == third


@pytest.mark.parametrize(("value", "text"), [(3.0, "3"), (-0.5, "-0.5"), (1e20, "1e+20"), (1234567.0, "1234567")])
def test_plain_writes_as_a_person_does(value: float, text: str) -> None:
    assert plain(value) == text
