"""Members beside labels: known answers, and an order that is refused only where chance cannot explain it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.evaluation.labels import LabelFit, auc, better_order, draw_balanced, fit_labels, one_against_rest

CLASSES = ("approved", "refused")


def columns(first: list[float]) -> NDArray[np.float64]:
    """(n,) -> (n, 2)"""
    return np.stack([first, 1.0 - np.array(first)], axis=1)


def scores(labels: NDArray[np.int64], shift: float, random: np.random.Generator) -> NDArray[np.float64]:
    """A member whose scores of the second class lie `shift` standard deviations higher: labels (n,) -> (n, 2)"""
    return columns((1.0 / (1.0 + np.exp(random.normal(shift * labels)))).tolist())


def fit(probabilities: list[NDArray[np.float64]], labels: NDArray[np.int64], shares: tuple[float, ...]) -> LabelFit:
    names, classes = tuple("abcd"[: len(probabilities)]), tuple(f"class {k}" for k in range(len(shares)))
    return fit_labels(names, classes, np.stack(probabilities), labels, np.array(shares), seed=0)


def test_auc_of_two_classes_is_the_usual_one() -> None:
    labels = np.array([1, 1, 0, 0])
    assert auc(columns([0.9, 0.6, 0.65, 0.2]), labels) == 0.75 - 0.5, "one of the four pairs is in order"
    assert auc(columns([0.2, 0.65, 0.6, 0.9]), labels) == 0.75
    assert auc(columns([0.5, 0.5, 0.5, 0.5]), labels) == 0.5, "a tie is half"
    assert auc(columns([0.1, 0.2]), np.array([0, 0])) == 0.5, "nothing to compare with"


def test_one_against_rest_of_three_classes() -> None:
    labels = np.array([0, 0, 1, 1, 2, 2])
    turned = np.eye(3)[labels][:, [1, 2, 0]]
    found = one_against_rest(turned, labels)
    assert found.shape == (3, 3) and found[0, 1] == found[1, 2] == found[2, 0] == 1.0
    assert auc(turned, labels) == pytest.approx(0.25) and auc(np.eye(3)[labels], labels) == 1.0


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=2, max_size=40))
def test_flipped_classes_turn_an_auc_around(rows: list[tuple[float, int]]) -> None:
    said, labels = columns([share for share, _ in rows]), np.array([label for _, label in rows])
    assert auc(said[:, ::-1], labels) == pytest.approx(1.0 - auc(said, labels))
    assert auc(said, 1 - labels) == pytest.approx(1.0 - auc(said, labels))


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 60), st.integers(0, 9))
def test_a_balanced_draw(first: int, second: int, count: int, seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat([0, 1], [first, second]))
    rows = draw_balanced(labels, count, seed)
    drawn = np.bincount(labels[rows], minlength=2)
    assert len(set(rows.tolist())) == drawn.sum() == min(count, first + second)
    assert abs(drawn[0] - drawn[1]) <= 1 or drawn.min() == min(first, second), "only what is used up is fewer"
    assert set(rows) <= set(draw_balanced(labels, count + 5, seed)), "a larger draw holds a smaller one"


@pytest.mark.parametrize(("bad", "good"), [(3, 57), (30, 30)])
@pytest.mark.parametrize("shift", [0.2, 0.5])
def test_a_weak_model_is_never_refused(bad: int, good: int, shift: float) -> None:
    """AUC 0.56 and 0.64; three of 60 is what a plain draw of 5% defaults holds."""
    random, labels = np.random.default_rng(1), np.repeat([1, 0], [bad, good])
    assert all(better_order(scores(labels, shift, random), labels, seed)[0] is None for seed in range(200))


def test_a_reversed_model_is_found() -> None:
    random, labels = np.random.default_rng(1), np.repeat([1, 0], 30)
    for shift in (1.8, 3.0):
        order, best = better_order(scores(labels, shift, random)[:, ::-1], labels, seed=0)
        assert order == (1, 0) and best > 0.8


@pytest.mark.parametrize("turned", [[1, 2, 0], [0, 2, 1], [2, 1, 0]])
def test_three_classes_in_another_order(turned: list[int]) -> None:
    """Column j holds the class turned[j]; the order that fits names it."""
    random, labels = np.random.default_rng(2), np.repeat([0, 1, 2], 20)
    sound = np.eye(3)[labels] + random.uniform(0, 1.2, (60, 3))
    sound /= sound.sum(axis=1, keepdims=True)
    assert better_order(sound, labels, 0)[0] is None
    assert better_order(sound[:, turned], labels, 0)[0] == tuple(turned)
    fault = fit([sound[:, turned]], labels, (0.4, 0.3, 0.3)).fault("scores")
    assert fault is not None and f"with classes {[f'class {k}' for k in turned]}: register" in fault


def test_the_sentence_names_members_figure_and_fix() -> None:
    random, labels = np.random.default_rng(3), np.repeat([1, 0], 30)
    sound = scores(labels, 3.0, random)
    back, flat = sound[:, ::-1], np.full((60, 2), 0.5)
    both = fit([back, back, flat], labels, (0.5, 0.5)).fault("scores")
    assert both is not None and "the AUC of a, b is 0.0" in both and "register ensemble 'scores' again" in both
    one = fit([sound, back, sound], labels, (0.5, 0.5)).fault("scores")
    assert one is not None and "the AUC of b is 0.0" in one and "have them answer class 0, class 1" in one
    assert fit([sound, flat], labels, (0.5, 0.5)).fault("scores") is None


def test_what_is_told_and_not_refused() -> None:
    labels = np.repeat([1, 0], [10, 30])
    usual, hard = columns([0.8] * 39 + [0.9]), np.eye(2)[labels]
    silent = np.full((40, 2), np.nan)
    found = fit([usual, hard, silent, np.full((40, 2), 0.5)], labels, (0.95, 0.05))
    told = found.notices()
    assert found.fault("scores") is None and [sentence.split("'")[1] for sentence in told] == ["c", "a", "b", "d"]
    assert told[0] == "'c' answered for none of the 40 labelled records."
    assert told[1] == "'a' is right for about 95% of the records, no more than naming 'class 0' each time is (95%)."
    assert told[2].startswith("'b' answers 0 or 1") and "same probabilities" in told[3]
    document = found.to_json()
    assert document["accuracy"] == {"a": pytest.approx(0.95), "b": 1.0, "d": pytest.approx(0.95)}
    assert fit([hard], labels, (0.95, 0.05)).members[0].auc == 1.0


def test_a_doubt_is_half_of_the_members_below_chance() -> None:
    labels = np.repeat([1, 0], 10)
    against, along = columns([0.5] * 19 + [0.4]), columns([0.5] * 19 + [0.6])
    assert fit([against, along], labels, (0.5, 0.5)).doubtful
    assert not fit([against, along, along], labels, (0.5, 0.5)).doubtful
    assert not fit([columns([0.9] * 10 + [0.1] * 10)], labels, (0.5, 0.5)).doubtful, "no doubt any more"
