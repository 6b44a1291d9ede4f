"""The teacher ensemble, and how queried labels weigh it."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from models.arrays import Encoded
from models.config import TeacherConfig
from models.training.teachers import TeacherEnsemble, fit_teachers
from tests.models.tiny import Task


@dataclass(frozen=True)
class Threshold:
    """Says class 1 where one column is above 0, with some certainty."""

    column: int
    certainty: float = 1.0

    def predict_proba(self, x: Encoded) -> NDArray[np.float64]:
        above = np.where(x[:, self.column] > 0, self.certainty, 1 - self.certainty)
        return np.stack([1 - above, above], axis=1)


TEACHERS = TeacherEnsemble((Threshold(0), Threshold(1), Threshold(2)), classes=2)


def points(count: int, seed: int = 0) -> Encoded:
    return np.random.default_rng(seed).normal(size=(count, 3))


def test_votes_and_shares() -> None:
    votes = TEACHERS.votes(np.array([[1.0, 1.0, -1.0], [-1.0, -1.0, -1.0]]))
    np.testing.assert_allclose(votes[:, :, 1], [[1, 0], [1, 0], [0, 0]], atol=1e-6)
    shares = TEACHERS.expected(votes, TEACHERS.equal_weights(1))
    np.testing.assert_allclose(shares[:, 0], [[1 / 3, 2 / 3], [1.0, 0.0]], atol=1e-6)
    both = TEACHERS.expected(votes, np.array([[0.0, 0.0, 0.5, 0.0, 0.5], [1.0, 0.0, 0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(both[:, 0], [[0.5, 0.5], [0.5, 0.5]], atol=1e-6)
    np.testing.assert_allclose(both[:, 1], [[0.0, 1.0], [1.0, 0.0]], atol=1e-6)


def test_teacher_logits_are_the_log_chances_before_they_were_sharpened() -> None:
    """log(0.8 / 0.2) apart, centred over the classes; a teacher that is sure has a finite logit too."""
    models = TeacherEnsemble((Threshold(0, 0.8), Threshold(1)), classes=2)
    logits = models.teacher_logits(models.votes(np.array([[1.0, -1.0, 0.0]])))
    assert logits.shape == (1, 4)
    np.testing.assert_allclose(logits[0, :2], [-np.log(4.0) / 2, np.log(4.0) / 2], atol=1e-5)
    assert np.isfinite(logits).all() and logits[0, 2] > 2.0 > -2.0 > logits[0, 3]


def test_a_vote_is_sharper_than_its_probability_but_a_toss_up_stays_one() -> None:
    unsure = TeacherEnsemble((Threshold(0, 0.6), Threshold(0, 0.5)), classes=2)
    votes = unsure.votes(np.array([[1.0, 0.0, 0.0]]))
    odds = (0.6 / 0.4) ** TeacherConfig().sharpness
    np.testing.assert_allclose(votes[:, 0, 1], [odds / (1 + odds), 0.5], rtol=1e-5)


def test_stacking_recovers_known_weights() -> None:
    true = np.array([[0.6, 0.3, 0.0, 0.0, 0.1], [0.0, 0.2, 0.5, 0.3, 0.0]])
    votes = TEACHERS.votes(points(20_000))
    weights = TEACHERS.fit_stacking_weights(votes, TEACHERS.expected(votes, true))
    np.testing.assert_allclose(weights, true, atol=0.01)


def test_a_black_box_that_did_not_answer_is_weighed_by_its_other_answers() -> None:
    true = np.array([[0.6, 0.3, 0.0, 0.0, 0.1], [0.0, 0.2, 0.5, 0.3, 0.0]])
    votes = TEACHERS.votes(points(20_000))
    answers = TEACHERS.expected(votes, true)
    answers[::2, 1] = 0.0
    np.testing.assert_allclose(TEACHERS.fit_stacking_weights(votes, answers), true, atol=0.01)


def test_few_answers_move_the_weights_only_a_little() -> None:
    true = np.array([[1.0, 0.0, 0.0, 0.0, 0.0]])
    gaps = []
    for count in (0, 10, 1000):
        votes = TEACHERS.votes(points(count))
        weights = TEACHERS.fit_stacking_weights(votes, TEACHERS.expected(votes, true))
        assert weights.shape == (1, 5) and weights.sum() == pytest.approx(1.0) and weights.min() >= 0
        gaps.append(np.abs(weights - true).sum())
    np.testing.assert_allclose(gaps[0], np.abs(TEACHERS.equal_weights(1) - true).sum())
    assert gaps[0] > gaps[1] > gaps[2]


def test_a_constant_teacher_takes_up_black_boxes_that_always_say_the_same() -> None:
    votes = TEACHERS.votes(points(500))
    weights = TEACHERS.fit_stacking_weights(votes, np.tile([0.0, 1.0], (500, 1, 1)))
    assert weights[0, -1] > 0.9


@pytest.mark.parametrize("classes", [2, 4])
def test_fitted_models_know_their_classes(blobs_task: Task, classes: int) -> None:
    training, test, encode = blobs_task.training, blobs_task.test, blobs_task.encoder.encode
    wanted = test.labels * classes // 4
    models = fit_teachers(encode(training.records), training.labels * classes // 4, classes, seed=0)
    votes = models.votes(encode(test.records))
    assert votes.shape == (len(models.teachers), len(test), classes)
    np.testing.assert_allclose(votes.sum(axis=2), 1.0, rtol=1e-5)
    assert ((votes.argmax(axis=2) == wanted).mean(axis=1) > 0.9).all()
    again = fit_teachers(encode(training.records), training.labels * classes // 4, classes, seed=0)
    np.testing.assert_array_equal(again.votes(encode(test.records)), votes)


def test_teachers_that_are_switched_off(blobs_task: Task) -> None:
    training, encode = blobs_task.training, blobs_task.encoder.encode
    config = TeacherConfig(svm=False, neighbours=False, boosted=False)
    models = fit_teachers(encode(training.records), training.labels, 4, seed=0, config=config)
    names = [type(model).__name__ for model in models.teachers]
    assert names == ["RandomForestClassifier", "ExtraTreesClassifier", "MLPClassifier"]
