"""Votes and what they are worth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.ensemble.votes import agreement, answered, beta_lower_bound, votes
from models.errors import ConfigError, EnsembleError

THREE_ON_TWO = np.array(
    [
        [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]],
        [[0.3, 0.4, 0.3], [0.2, 0.1, 0.7]],
        [[np.nan, np.nan, np.nan], [0.6, 0.2, 0.2]],
    ]
)
TARGET = np.array([0, 2])


def test_a_vote_is_the_most_probable_class() -> None:
    assert votes(THREE_ON_TWO, TARGET).tolist() == [[True, True], [False, True], [False, False]]


def test_a_member_that_did_not_answer_has_no_vote_for_any_class() -> None:
    assert answered(THREE_ON_TWO).tolist() == [[True, True], [True, True], [False, True]]
    for code in range(3):
        assert not votes(THREE_ON_TWO, np.full(2, code))[2, 0]


def test_agreement_is_the_share_of_all_and_who_is_silent_has_not_agreed() -> None:
    np.testing.assert_allclose(agreement(THREE_ON_TWO, TARGET), [1 / 3, 2 / 3])
    assert agreement(np.full((2, 1, 2), np.nan), np.array([0])).tolist() == [0.0]


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(EnsembleError, match=r"\(3, 2, 3\) and \(3,\)"):
        votes(THREE_ON_TWO, np.array([0, 1, 2]))


@pytest.mark.parametrize(("yes", "no", "bound"), [(7, 0, 0.82996), (6, 1, 0.62860), (0, 0, 0.024472)])
def test_known_bounds(yes: int, no: int, bound: float) -> None:
    assert beta_lower_bound(yes, no) == pytest.approx(bound, abs=1e-5)


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_vote_for_raises_the_bound_and_one_against_lowers_it(yes: int, no: int) -> None:
    bound = beta_lower_bound(yes, no)
    assert 0.0 < bound < 1.0
    assert beta_lower_bound(yes + 1, no) > bound > beta_lower_bound(yes, no + 1)
    assert beta_lower_bound(yes, no, level=0.95) < bound


def test_senseless_arguments() -> None:
    with pytest.raises(ConfigError, match="-1 for and 2 against"):
        beta_lower_bound(-1, 2)
    with pytest.raises(ConfigError, match=r"level 1\.0"):
        beta_lower_bound(7, 0, level=1.0)
