"""Which models count as others that are equally good, and what survives them."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.survival.families import TabM, all_families
from models.arrays import Records
from models.datasets.dataset import Labelled, Splits, split_dataset
from models.datasets.synthetic import four_blobs
from models.evaluation.survival import (
    Group,
    equally_good,
    fit_families,
    other_models,
    share_of,
    survival,
)


@dataclass(frozen=True, eq=False)
class Cuts:
    """Models of two classes that accept from a value of the first feature on."""

    cuts: tuple[float, ...]
    classes: tuple[str, ...] = ("no", "yes")

    @property
    def member_names(self) -> tuple[str, ...]:
        return tuple(f"from {cut:g}" for cut in self.cuts)

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        accepted = np.stack([records[:, 0] >= cut for cut in self.cuts]).astype(np.float64)
        return np.stack([1 - accepted, accepted], axis=2)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TabM, "steps", 60)


def rows(labels_from: float = 0.5) -> Labelled:
    values = np.linspace(0.0, 1.0, 1001)[:, None]
    return Labelled(values, (values[:, 0] >= labels_from).astype(np.int64))


def test_look_alikes_and_models_of_another_accuracy_fall_out() -> None:
    group = equally_good("a", [Cuts((0.502, 0.52)), Cuts((0.54, 0.48))], Cuts((0.5,)), rows(), rows())
    assert group.kept.tolist() == [False, True, False, True] and group.size == 2
    alike, weak = group.fell_out
    assert alike == "a0 from 0.502: votes like an asked model on 99.8% of the rows"
    assert weak == "a1 from 0.54: accuracy 0.960"


def test_survival_is_the_share_of_models_that_count_and_nothing_where_there_is_no_answer() -> None:
    group = Group("b", (Cuts((0.2, 0.4)), Cuts((0.6, 0.8))), np.array([True, True, True, False]), ())
    nobody = Group("d", (Cuts((0.2,)),), np.array([False]), ())
    records, target = np.array([[0.5], [0.7], [0.9]]), np.ones(3, dtype=np.int64)
    found = survival({"b": group, "d": nobody}, records, target, np.array([True, True, False]))
    assert list(found) == ["b"] and found["b"] == pytest.approx([2 / 3, 1.0, 0.0])


def test_a_share_of_the_rows_has_no_repeats_and_every_class() -> None:
    records = np.arange(100.0)[:, None]
    labels = (np.arange(100) >= 95).astype(np.int64)
    drawn = share_of(Labelled(records, labels), 0.8, 3)
    assert len(np.unique(drawn.records)) == len(drawn) == 80 and drawn.labels.sum() == 4
    assert (np.diff(drawn.records[:, 0]) > 0).all()
    assert not np.array_equal(drawn.records, share_of(Labelled(records, labels), 0.8, 4).records)


def test_every_group_is_trained_on_its_own_rows() -> None:
    splits: Splits = split_dataset(four_blobs(), 0)
    seen: list[tuple[int, int]] = []

    def fit(part: Labelled, seed: int) -> Cuts:
        seen.append((len(part), seed))
        return Cuts((0.0, 0.1), splits.encoder.schema.classes)

    groups = other_models(splits, Cuts((0.0,), splits.encoder.schema.classes), fit, 7, splits.test, 2, all_families)
    whole, both = len(splits.training), len(splits.training) + len(splits.validation)
    some, late = round(0.8 * whole), round(0.8 * len(splits.test))
    assert [pytest.approx(size, abs=4) for size in (whole, whole, some, some, both, both, late, late)] == [
        size for size, _ in seen
    ]
    assert {seed for _, seed in seen} == {1007, 2007}
    assert list(groups) == ["a", "b", "c", "d", "e"]
    assert {"logistic", "spline-gam", "lightgbm", "tabm"} <= set(groups["d"].ensembles[0].member_names)


def test_the_families_learn_and_are_the_same_for_the_same_seed() -> None:
    splits = split_dataset(four_blobs(), 0)
    one, same = (fit_families(splits.encoder, splits.training, all_families(0)) for _ in range(2))
    said = one.predict_proba(splits.test.records)
    assert said.shape == (len(one.member_names), len(splits.test), len(one.classes))
    assert np.array_equal(said, same.predict_proba(splits.test.records))
    right = dict(zip(one.member_names, (said.argmax(axis=2) == splits.test.labels).mean(axis=1), strict=True))
    assert min(right["lightgbm"], right["tabm"], right["spline-gam"]) > 0.9
