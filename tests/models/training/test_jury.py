"""The jury: what its rows are, what its jurors say, and how sharply."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.arrays import Encoded
from models.config import JuryConfig
from models.training.jury import FAMILIES, Jury, draw_rows, fit_jury
from tests.models.tiny import TINY, Task


@dataclass(frozen=True)
class Threshold:
    """Says class 1 where one column is above 0, with some certainty."""

    column: int
    certainty: float = 1.0

    def predict_proba(self, x: Encoded) -> NDArray[np.float64]:
        above = np.where(x[:, self.column] > 0, self.certainty, 1 - self.certainty)
        return np.stack([1 - above, above], axis=1)


JURY = Jury((Threshold(0), Threshold(1), Threshold(2)), JuryConfig())


def test_each_juror_votes_by_itself() -> None:
    votes = JURY.votes(np.array([[1.0, 1.0, -1.0], [-1.0, -1.0, -1.0]]))
    np.testing.assert_allclose(votes[:, :, 1], [[1, 0], [1, 0], [0, 0]], atol=1e-6)


def test_logits_are_the_log_chances_before_they_were_sharpened() -> None:
    """log(0.8 / 0.2) apart, centred over the classes; a juror that is sure has a finite logit too."""
    jury = Jury((Threshold(0, 0.8), Threshold(1)), JuryConfig())
    logits = jury.logits(jury.votes(np.array([[1.0, -1.0, 0.0]])))
    assert logits.shape == (1, 4)
    np.testing.assert_allclose(logits[0, :2], [-np.log(4.0) / 2, np.log(4.0) / 2], atol=1e-5)
    assert np.isfinite(logits).all() and logits[0, 2] > 2.0 > -2.0 > logits[0, 3]


def test_a_vote_is_sharper_than_its_probability_but_a_toss_up_stays_one() -> None:
    unsure = Jury((Threshold(0, 0.6), Threshold(0, 0.5)), JuryConfig())
    votes = unsure.votes(np.array([[1.0, 0.0, 0.0]]))
    odds = (0.6 / 0.4) ** JuryConfig().sharpness
    np.testing.assert_allclose(votes[:, 0, 1], [odds / (1 + odds), 0.5], rtol=1e-5)


@given(counts=st.lists(st.integers(1, 60), min_size=2, max_size=4), seed=st.integers(0, 99))
def test_a_draw_is_a_share_of_the_rows_of_each_class_without_repeats(counts: list[int], seed: int) -> None:
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    rows = draw_rows(y, 0.8, np.random.default_rng(seed))
    assert (np.diff(rows) > 0).all(), "in their order, none twice"
    drawn = np.bincount(y[rows], minlength=len(counts)).tolist()
    assert drawn == [min(count, max(3, round(0.8 * count))) for count in counts]


def test_draws_differ_and_follow_the_random_numbers() -> None:
    y = np.arange(100) % 2
    first, again, other = (draw_rows(y, 0.8, np.random.default_rng(seed)).tolist() for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("classes", [2, 4])
def test_a_juror_of_each_family_for_each_draw_knows_its_classes(blobs_task: Task, classes: int) -> None:
    training, test, encode = blobs_task.training, blobs_task.test, blobs_task.encoder.encode
    labels, wanted = training.labels * classes // 4, test.labels * classes // 4
    config = JuryConfig(draws=2)
    jury = fit_jury(encode(training.records), labels, classes, seed=0, config=config)
    votes = jury.votes(encode(test.records))
    assert votes.shape == (2 * len(FAMILIES), len(test), classes)
    np.testing.assert_allclose(votes.sum(axis=2), 1.0, rtol=1e-5)
    assert ((votes.argmax(axis=2) == wanted).mean(axis=1) > 0.9).all()
    again = fit_jury(encode(training.records), labels, classes, seed=0, config=config)
    np.testing.assert_array_equal(again.votes(encode(test.records)), votes)


def test_jurors_of_one_family_differ_by_their_rows_and_seeds(blobs_task: Task) -> None:
    training, encode = blobs_task.training, blobs_task.encoder.encode
    jury = fit_jury(encode(training.records), training.labels, 4, seed=0, config=replace(TINY.jury, draws=2))
    votes = jury.votes(np.random.default_rng(0).normal(size=(200, 2)))
    apart = np.abs(votes[: len(FAMILIES)] - votes[len(FAMILIES) :]).max(axis=(1, 2))
    assert (apart > 0.01).all()


def test_the_slow_families_learn_from_few_rows(blobs_task: Task) -> None:
    training, encode = blobs_task.training, blobs_task.encoder.encode
    config = replace(TINY.jury, slow_rows=20)
    jury = fit_jury(encode(training.records), training.labels, 4, seed=0, config=config)
    fitted = dict(zip(FAMILIES, jury.jurors, strict=True))
    assert fitted["neighbours"].n_samples_fit_ == 20
    assert fitted["support vectors"].shape_fit_[0] == 20


def test_a_class_is_never_lost_to_the_limit_of_rows(blobs_task: Task) -> None:
    """Two rows cannot hold four classes: the slow families then have all rows of the draw."""
    training, encode = blobs_task.training, blobs_task.encoder.encode
    config = replace(TINY.jury, slow_rows=2)
    jury = fit_jury(encode(training.records), training.labels, 4, seed=0, config=config)
    drawn = len(draw_rows(training.labels, config.share, np.random.default_rng(0)))
    assert dict(zip(FAMILIES, jury.jurors, strict=True))["neighbours"].n_samples_fit_ == drawn
