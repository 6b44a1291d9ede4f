"""One contract for all seven members."""

from pathlib import Path

import numpy as np
import pytest

from models.ensemble.recipes import MEMBER_NAMES, MEMBERS
from models.errors import ArtifactError, DataError
from tests.models.ensemble.small import RECIPES, blobs, fitted

pytestmark = pytest.mark.parametrize("name", MEMBER_NAMES)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_member_gives_a_distribution_over_k_classes_and_has_learned(name: str, classes: int) -> None:
    member, unseen = fitted(name, classes), blobs(classes, rows=100, seed=1)
    answer = member.predict_proba(unseen.x)
    assert member.name == name
    assert answer.shape == (100, classes)
    assert answer.dtype == np.float64
    assert (answer >= 0.0).all()
    np.testing.assert_allclose(answer.sum(axis=1), 1.0, atol=1e-6)
    assert np.mean(answer.argmax(axis=1) == unseen.y) > 0.9


def test_the_same_seed_gives_the_same_member(name: str) -> None:
    points, x = blobs(2), blobs(2, rows=50, seed=1).x
    again = RECIPES[name].fit(points.x, points.y, 2, seed=0)
    np.testing.assert_array_equal(again.predict_proba(x), fitted(name, 2).predict_proba(x))


def test_a_row_alone_is_the_row_in_a_batch(name: str) -> None:
    member, x = fitted(name, 4), blobs(4, rows=200, seed=1).x
    alone = np.concatenate([member.predict_proba(x[row : row + 1]) for row in range(20)])
    np.testing.assert_allclose(alone, member.predict_proba(x)[:20], atol=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_saved_member_answers_the_same_to_the_last_bit(name: str, classes: int, tmp_path: Path) -> None:
    member, x = fitted(name, classes), blobs(classes, rows=100, seed=1).x
    member.save(tmp_path)
    np.testing.assert_array_equal(MEMBERS[name].load(tmp_path).predict_proba(x), member.predict_proba(x))


def test_a_missing_file_is_an_artifact_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"missing"):
        MEMBERS[name].load(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "noise"])
def test_a_damaged_file_is_an_artifact_error(name: str, damage: str, tmp_path: Path) -> None:
    fitted(name, 2).save(tmp_path)
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"\x07noise" * 50)
    with pytest.raises(ArtifactError):
        MEMBERS[name].load(tmp_path)


def test_a_class_without_rows_is_refused_by_name(name: str) -> None:
    points = blobs(2)
    with pytest.raises(DataError, match=r"Class 2 has 0 of 240 training rows"):
        RECIPES[name].fit(points.x, points.y, 3, seed=0)
