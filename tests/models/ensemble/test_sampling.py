"""Samples by class."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.ensemble.member import LEAST, hold_out, stratified_rows

LABELS = st.lists(st.integers(0, 3), min_size=2, max_size=200).map(lambda codes: np.array(codes, dtype=np.int64))


def test_a_sample_keeps_the_shares_of_the_classes() -> None:
    y = np.repeat(np.array([0, 1], dtype=np.int64), [9000, 1000])
    rows = stratified_rows(y, 500, seed=0)
    assert np.bincount(y[rows]).tolist() == [450, 50]


def test_a_sample_within_the_limit_is_everything() -> None:
    assert stratified_rows(np.zeros(7, dtype=np.int64), 7, seed=0).tolist() == list(range(7))


@given(LABELS, st.integers(1, 100), st.integers(0, 5))
def test_a_sample_never_loses_a_class(y: np.ndarray, limit: int, seed: int) -> None:
    rows = stratified_rows(y, limit, seed)
    assert len(np.unique(rows)) == len(rows)
    for code in np.unique(y):
        assert np.sum(y[rows] == code) >= min(LEAST, np.sum(y == code))
    np.testing.assert_array_equal(rows, stratified_rows(y, limit, seed))


@given(LABELS, st.floats(0.05, 0.95), st.integers(0, 5))
def test_held_out_rows_are_not_learned_from_and_no_class_is_only_held_out(
    y: np.ndarray, share: float, seed: int
) -> None:
    learn, validate = hold_out(y, share, seed)
    assert sorted([*learn, *validate]) == list(range(len(y)))
    assert set(y[learn]) == set(y)


def test_the_share_held_out_is_taken_from_each_class() -> None:
    y = np.repeat(np.array([0, 1, 2], dtype=np.int64), [800, 160, 40])
    _, validate = hold_out(y, 0.15, seed=0)
    assert np.bincount(y[validate]).tolist() == [120, 24, 6]
