"""Lines and simplices: how far categories are from each other, and the nearest permitted one of a point."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.arrays import Records
from models.data.schema import Direction, Feature, FeatureKind, Schema
from models.space.codings import Circles, Coding, Encoding, Lines, Simplices, codings_of
from models.space.constraints import Constraints, compile_constraints, encoded_bounds
from models.space.encoding import Encoder, cost
from tests.models.schemas import encodings, record_matrices, schemas

NAMES = ("a", "b", "c", "d", "e", "f", "g")


def category(count: int, ordered: bool = False, nullable: bool = False) -> Feature:
    return Feature("x", FeatureKind.CATEGORICAL, categories=NAMES[:count], ordered=ordered, nullable=nullable)


def coding_of(feature: Feature, encoding: Encoding = "simplex") -> Coding:
    ((places, coding),) = codings_of([feature], encoding)
    assert places == [0]
    return coding


def distances(coding: Coding) -> NDArray[np.float64]:
    """Between all levels of the first feature (L, L)"""
    points = coding.table[0, : coding.counts[0]]
    return np.asarray(np.linalg.norm(points[:, None] - points, axis=2))


@pytest.mark.parametrize("count", range(3, 8))
def test_nominal_categories_are_all_equally_far_apart(count: int) -> None:
    coding = coding_of(category(count))
    assert isinstance(coding, Simplices) and coding.width == count
    apart = distances(coding)[~np.eye(count, dtype=bool)]
    np.testing.assert_allclose(apart, math.sqrt(2 * count / (count - 1)), rtol=1e-12)


@pytest.mark.parametrize("count", range(3, 8))
def test_ordered_categories_are_equally_far_apart_along_a_line(count: int) -> None:
    coding = coding_of(replace(category(count), order=tuple(reversed(NAMES[:count]))))
    assert isinstance(coding, Lines) and coding.width == 1
    np.testing.assert_allclose(np.diff(coding.table[0, :, 0]), -coding.spacing[0], rtol=1e-12)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("count", range(2, 8))
def test_equally_frequent_categories_have_the_variance_of_a_z_score(count: int, ordered: bool) -> None:
    assert coding_of(category(count, ordered)).table[0].var(axis=0).sum() == pytest.approx(1.0)


def test_two_and_three_categories_are_as_far_apart_as_on_the_circle() -> None:
    for count in (2, 3):
        np.testing.assert_allclose(
            distances(coding_of(category(count))), distances(coding_of(category(count), "circle")), atol=1e-12
        )
    assert coding_of(category(2)).width == 1


def test_a_missing_value_is_one_more_vertex_or_stands_beside_the_line() -> None:
    simplex = coding_of(category(4, nullable=True))
    assert len({round(each, 12) for each in distances(simplex)[~np.eye(5, dtype=bool)]}) == 1
    line = coding_of(category(5, ordered=True, nullable=True))
    assert line.width == 2 and distances(line)[5, 2] == pytest.approx(math.sqrt(2))
    assert distances(line)[5].argsort().tolist()[:2] == [5, 2]
    assert isinstance(coding_of(category(2, ordered=True, nullable=True)), Simplices)


def test_features_that_are_encoded_alike_share_a_coding() -> None:
    kinds = [category(4), category(2), category(3, True), category(4, nullable=True), category(5), category(3)]
    groups = {tuple(places): type(coding) for places, coding in codings_of(kinds, "simplex")}
    assert groups == {(0,): Simplices, (1, 2): Lines, (3, 4): Simplices, (5,): Simplices}
    (((places), coding),) = codings_of(kinds, "circle")
    assert places == [0, 1, 2, 3, 4, 5] and isinstance(coding, Circles)


@given(st.integers(2, 7), st.booleans(), st.booleans(), st.data())
def test_the_nearest_level_is_that_of_least_distance(
    count: int, ordered: bool, nullable: bool, data: st.DataObject
) -> None:
    coding = coding_of(category(count, ordered, nullable))
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    points = random.normal(0, 2, (20, 1, coding.width))
    permitted, missing = random.random((20, 1, count)) < 0.5, random.random((20, 1)) < 0.5
    permitted[np.arange(20), 0, random.integers(count, size=20)] = True
    open_levels = np.concatenate([permitted[:, 0], missing], axis=1)[:, : coding.counts[0]]
    away = np.linalg.norm(points - coding.table[0], axis=2)
    expected = np.where(open_levels, away, np.inf).argmin(axis=1)
    assert coding.nearest(points, permitted, missing)[:, 0].tolist() == expected.tolist()
    everything = np.where(np.arange(coding.counts[0]) < count, away, np.inf).argmin(axis=1)
    assert coding.nearest(points, None, np.zeros_like(missing))[:, 0].tolist() == everything.tolist()


def test_points_far_away_have_a_nearest_level_too() -> None:
    far = np.array([[[1e307]], [[-1e307]]])
    line = coding_of(category(5, ordered=True))
    assert line.nearest(far, None, np.zeros((2, 1), dtype=bool)).tolist() == [[4], [0]]


@given(st.data(), encodings)
def test_the_box_holds_every_permitted_level_and_no_other_vertex(data: st.DataObject, encoding: Encoding) -> None:
    schema = data.draw(schemas())
    origin = data.draw(record_matrices(schema))
    encoder = Encoder.fit(schema, origin, encoding)
    ranges = {
        feature.name: tuple(data.draw(st.sets(st.sampled_from(feature.categories), min_size=1)))
        for feature in schema.features
        if feature.is_categorical and not feature.immutable and feature.direction is Direction.ANY
    }
    feasible = compile_constraints(schema, Constraints(ranges=ranges), origin)
    box = encoded_bounds(encoder, feasible)
    for j, feature in enumerate(schema.features):
        if not feature.is_categorical:
            continue
        where, simplex = encoder.columns[j], encoder.columns[j].stop - encoder.columns[j].start > 2
        for row in np.flatnonzero(feasible.movable[:, j]):
            if feasible.missing[row, j] and feature.nullable:
                point = encoder.encode_feature(j, np.array(np.nan))
                assert ((point >= box.lower[row, where]) & (point <= box.upper[row, where])).all()
            for level in range(len(feature.categories)):
                point = encoder.encode_feature(j, np.array(float(level)))
                inside = bool(((point >= box.lower[row, where]) & (point <= box.upper[row, where])).all())
                assert inside or not feasible.levels[row, j, level]
                assert not inside or feasible.levels[row, j, level] or not (simplex and encoding == "simplex")


def test_an_ordered_category_that_may_only_rise_has_nothing_below_it_in_its_box() -> None:
    grade = replace(category(5, ordered=True), direction=Direction.UP)
    schema = Schema((grade,), "label", ("no", "yes"))
    encoder = Encoder.fit(schema, np.array([[2.0], [0.0]]))
    box = encoded_bounds(encoder, compile_constraints(schema, Constraints(), np.array([[2.0]])))
    line = encoder.encode(np.arange(5.0)[:, None])[:, 0]
    assert ((line >= box.lower[0]) & (line <= box.upper[0])).tolist() == [False, False, True, True, True]


def test_the_box_of_a_line_holds_a_missing_value_that_may_stay() -> None:
    line, top = coding_of(category(5, ordered=True, nullable=True)), np.array([[[False] * 4 + [True]]])
    low, high = line.box(top, np.array([[True]]))
    for level in (4, 5):
        assert ((line.table[0, level] >= low[0, 0]) & (line.table[0, level] <= high[0, 0])).all()
    low, high = line.box(top, np.array([[False]]))
    inside = (line.table[0] >= low[0, 0]) & (line.table[0] <= high[0, 0])
    assert inside.all(axis=1).tolist() == [False] * 4 + [True, False]


def renamed(schema: Schema, records: Records, names: dict[str, str]) -> tuple[Schema, Records]:
    """The same data under other names of the categories, which stand in the order of the alphabet"""
    features, columns = [], []
    for j, feature in enumerate(schema.features):
        categories = tuple(sorted(names[name] for name in feature.categories))
        order = tuple(names[name] for name in feature.order)
        features.append(replace(feature, categories=categories, order=order))
        code = [categories.index(names[name]) for name in feature.categories]
        columns.append(np.array(code, dtype=np.float64)[records[:, j].astype(np.intp)])
    return replace(schema, features=tuple(features)), np.stack(columns, axis=1)


def test_other_names_of_the_categories_leave_all_distances_as_they_are() -> None:
    features = (category(7), replace(category(5), name="y", order=("c", "a", "e", "b", "d")))
    schema = Schema(features, "label", ("no", "yes"))
    random = np.random.default_rng(3)
    records = np.stack([random.integers(7, size=40), random.integers(5, size=40)], axis=1).astype(np.float64)
    other, same = renamed(schema, records, dict(zip(NAMES, random.permutation(NAMES), strict=True)))
    assert other.features[0].categories == schema.features[0].categories and not np.array_equal(same, records)

    def apart(schema: Schema, records: Records, encoding: Encoding) -> NDArray[np.float64]:
        points = Encoder.fit(schema, records, encoding).encode(records)
        return cost(points, points[::-1])

    np.testing.assert_allclose(apart(other, same, "simplex"), apart(schema, records, "simplex"), rtol=1e-12)
    assert not np.allclose(apart(other, same, "circle"), apart(schema, records, "circle"))
