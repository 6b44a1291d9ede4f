"""Constraints: their errors, their compiled form, and that nothing gets past them."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.arrays import Records
from models.data.grid import snap_value
from models.data.schema import Direction, Feature, FeatureKind, Schema
from models.errors import ConstraintError
from models.space.codings import Encoding
from models.space.constraints import (
    Constraints,
    Range,
    compile_constraints,
    compile_each,
    encoded_bounds,
    violations,
)
from models.space.encoding import Encoder
from models.space.feasible import FeasibleSet
from tests.models.schemas import encodings, grid_values, points, record_matrices, requests, schemas

NAN = math.nan
SCHEMA = Schema(
    (
        Feature("age", FeatureKind.INTEGER, 17, 90, direction=Direction.UP),
        Feature("ratio", FeatureKind.NUMERIC, 0.0, 1.5, 0.1, nullable=True),
        Feature("grade", FeatureKind.CATEGORICAL, categories=("low", "mid", "high"), ordered=True, nullable=True),
        Feature("colour", FeatureKind.CATEGORICAL, categories=("red", "green")),
        Feature("sex", FeatureKind.CATEGORICAL, categories=("f", "m"), protected=True),
    ),
    "label",
    ("no", "yes"),
)
ORIGIN: Records = np.array([[30.0, 0.5, 1, 0, 1], [90.0, NAN, NAN, 1, 0]])


def compiled(
    immutable: tuple[str, ...] = (),
    ranges: dict[str, Range] | None = None,
    directions: dict[str, Direction] | None = None,
    origin: Records = ORIGIN,
) -> FeasibleSet:
    return compile_constraints(SCHEMA, Constraints(frozenset(immutable), ranges or {}, directions or {}), origin)


def test_the_schema_alone_freezes_what_it_protects_and_keeps_one_way_features_one_way() -> None:
    feasible = compiled()
    assert feasible.lower[0].tolist() == [30, 0, 0, 0, 1]
    assert feasible.upper[0].tolist() == [90, 1.5, 2, 1, 1]
    assert feasible.movable.tolist() == [[True, True, True, True, False], [False, True, True, True, False]]
    assert feasible.missing.tolist() == [[False] * 5, [False, True, True, False, False]]
    assert feasible.levels.shape == (2, 5, 3)
    assert feasible.levels[0].tolist()[2:4] == [[True, True, True], [True, True, False]]


def test_a_request_tightens_and_never_loosens() -> None:
    feasible = compiled(("colour",), {"age": (0, 59.5), "ratio": (0.31, None)}, {"age": Direction.ANY}, ORIGIN[:1])
    assert (feasible.lower[0, 0], feasible.upper[0, 0]) == (30, 59)
    assert (feasible.lower[0, 1], feasible.upper[0, 1]) == (0.4, 1.5)
    assert feasible.movable[0].tolist() == [True, True, True, False, False]
    both_ways = compiled(directions={"age": Direction.DOWN})
    assert not both_ways.movable[:, 0].any() and both_ways.lower[0, 0] == both_ways.upper[0, 0] == 30


def test_a_range_that_excludes_the_current_value_makes_it_move() -> None:
    feasible = compiled(ranges={"ratio": (0.8, 0.9), "colour": ("green",)})
    assert feasible.movable[0, 3] and not feasible.movable[1, 3]
    encoder = Encoder.fit(SCHEMA, ORIGIN)
    decoded = encoder.decode(encoder.encode(ORIGIN), feasible=feasible)
    assert decoded[:, 1].tolist() == [0.8, 0.8] and decoded[:, 3].tolist() == [1, 1]
    assert not violations(SCHEMA, ORIGIN, decoded, feasible).any()


def test_a_missing_value_that_is_frozen_or_one_way_stays_missing() -> None:
    one_way = {"ratio": Direction.UP, "grade": Direction.DOWN}
    for feasible in (compiled(("ratio", "grade")), compiled(directions=one_way)):
        encoder = Encoder.fit(SCHEMA, ORIGIN)
        decoded = encoder.decode(np.full((2, encoder.width), 2.5), feasible=feasible)
        assert np.isnan(decoded[1, 1:3]).all()
        assert not feasible.movable[1, 1:3].any()


def test_an_ordered_category_moves_along_its_order() -> None:
    feasible = compiled(directions={"grade": Direction.UP})
    assert feasible.levels[0, 2].tolist() == [False, True, True]
    assert compiled(directions={"grade": Direction.DOWN}).levels[0, 2].tolist() == [True, True, False]


def test_an_order_that_is_stated_apart_from_the_categories_is_followed() -> None:
    grade = Feature("grade", FeatureKind.CATEGORICAL, categories=("high", "low", "mid"), order=("low", "mid", "high"))
    schema, up = Schema((grade,), "label", ("no", "yes")), Constraints(directions={"grade": Direction.UP})
    feasible = compile_constraints(schema, up, np.array([[0.0], [1.0], [2.0]]))
    assert feasible.levels[:, 0].tolist() == [[True, False, False], [True, True, True], [True, False, True]]


def test_rows_are_repeated_side_by_side() -> None:
    for feasible in (compiled(), compiled(directions={"grade": Direction.UP})):
        three = feasible.repeat(3)
        assert three.origin[:, 0].tolist() == [30, 30, 30, 90, 90, 90]
        assert three.levels.shape == (6, 5, 3) and len(three) == 6
        np.testing.assert_array_equal(three.levels[2], feasible.levels[0])
        np.testing.assert_array_equal(three.row(4).lower, feasible.row(1).lower)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (Constraints(frozenset({"weight"})), "name 'weight', which is no feature; the features are age, ratio"),
        (Constraints(ranges={"label": (0, 1)}), "name 'label', which is no feature"),
        (Constraints(directions={"colour": Direction.UP}), "'colour' has categories without an order"),
        (Constraints(ranges={"age": (60, 40)}), "range of 'age' is inverted: 60 is above 40"),
        (Constraints(ranges={"age": (91, 120)}), "range 91 to 120 of 'age' holds none of its values: .* 17 to 90"),
        (Constraints(ranges={"age": (None, 3)}), "range any to 3 of 'age' holds none of its values"),
        (Constraints(ranges={"age": (30.2, 30.8)}), "range 30.2 to 30.8 of 'age' holds none .* in steps of 1"),
        (Constraints(ranges={"age": (-1e308, -1e300)}), "range -1e\\+308 to -1e\\+300 of 'age' holds none"),
        (Constraints(ranges={"age": (NAN, 50)}), "range \\(nan, 50\\) of 'age' is not finite"),
        (Constraints(ranges={"age": (0, 10**400)}), "range of 'age' has a number of more than 300 digits"),
        (Constraints(ranges={"age": ("30", "40")}), "range of 'age' must be its least and its greatest number"),
        (Constraints(ranges={"age": ()}), "range of 'age' must be its least and its greatest number"),
        (Constraints(ranges={"colour": ()}), "range of 'colour' is empty"),
        (Constraints(ranges={"colour": (0, 1)}), "range of 'colour' lists 0; its categories are red, green"),
        (Constraints(ranges={"colour": ("blue",)}), "range of 'colour' lists 'blue'; its categories are red, green"),
    ],
)
def test_what_no_record_can_meet_is_raised_for_all(constraints: Constraints, message: str) -> None:
    for call in (compile_constraints, compile_each):
        with pytest.raises(ConstraintError, match=message):
            call(SCHEMA, constraints, ORIGIN)


@pytest.mark.parametrize(
    ("constraints", "messages"),
    [
        (
            Constraints(frozenset({"age"}), {"age": (40, 60)}),
            ["Row 1: 'age' is 30 and must not change, but its range is 40 to 60", "Row 2: 'age' is 90 and must not"],
        ),
        (
            Constraints(ranges={"age": (None, 60)}),
            [None, "Row 2: 'age' is 90 and may only go up, but its range is 17 to 60"],
        ),
        (
            Constraints(ranges={"sex": ("f",)}),
            ["Row 1: 'sex' is 'm' and is protected, so it must not change, but its range is f;", None],
        ),
        (
            Constraints(ranges={"grade": ("low",)}, directions={"grade": Direction.UP}),
            ["Row 1: 'grade' is 'mid' and may only go up, but its range is low;", None],
        ),
        (
            Constraints(frozenset({"ratio"}), {"ratio": (1.0, None)}),
            ["Row 1: 'ratio' is 0.5 and must not change, but its range is 1 to 1.5", None],
        ),
    ],
)
def test_what_one_record_cannot_meet_is_its_own_error(constraints: Constraints, messages: list[str | None]) -> None:
    errors = compile_each(SCHEMA, constraints, ORIGIN)[1]
    for error, message in zip(errors, messages, strict=True):
        assert (error is None) == (message is None)
        assert str(message or "None") in str(error)
    first = next(message for message in messages if message)
    with pytest.raises(ConstraintError) as caught:
        compile_constraints(SCHEMA, constraints, ORIGIN)
    assert first in str(caught.value)


def permitted_values(feature: Feature, request: Constraints, own: float) -> set[float | None]:
    """The values that a feature may take, by the words of the rules and not by their code; None is missing."""
    asked = request.directions.get(feature.name, Direction.ANY)
    up, down = Direction.UP in (asked, feature.direction), Direction.DOWN in (asked, feature.direction)
    frozen, given = feature.immutable or feature.name in request.immutable, request.ranges.get(feature.name)
    inside = [value for value in values_of(feature, own) if in_range(feature, given, value)]
    if math.isnan(own):
        if frozen or up or down:
            return {None}
        return {*inside, None} if given in (None, (None, None)) else {*inside}
    place = {value: feature.order.index(feature.categories[int(value)]) if feature.order else value for value in inside}
    mine = feature.order.index(feature.categories[int(own)]) if feature.order else own
    left = [value for value in inside if (not up or place[value] >= mine) and (not down or place[value] <= mine)]
    return {value for value in left if value == own or not frozen}


def values_of(feature: Feature, own: float) -> list[float]:
    """What may be suggested, and the applicant's own value, on the grid or not; who is far away may move between."""
    suggested = grid_values(feature)
    if math.isnan(own) or own in suggested:
        return suggested
    steps = range(-60, 61)
    wide = {snap_value(feature.lower + k * feature.step, feature.step) for k in steps} | {
        snap_value(feature.upper + k * feature.step, feature.step) for k in steps
    }
    return sorted(
        {*suggested, own, *(value for value in wide if own < value < feature.lower or feature.upper < value < own)}
    )


def in_range(feature: Feature, given: Range | None, value: float) -> bool:
    if given is None:
        return True
    if feature.is_categorical:
        return feature.categories[int(value)] in given
    lower, upper = (None if end is None else float(end) for end in given)
    slack = 1e-9 * feature.step
    return (lower is None or value >= lower - slack) and (upper is None or value <= upper + slack)


@settings(max_examples=150)
@given(st.data())
def test_the_compiled_form_permits_exactly_what_the_words_of_the_rules_permit(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    origin, request = data.draw(record_matrices(schema, anywhere=True)), data.draw(requests(schema))
    sets = [[permitted_values(f, request, row[j]) for j, f in enumerate(schema.features)] for row in origin]
    errors = compile_each(schema, request, origin)[1]
    assert [error is None for error in errors] == [all(row) for row in sets]
    good = [row for row, error in enumerate(errors) if error is None]
    assume(good)
    feasible = compile_constraints(schema, request, origin[good])
    for place, row in enumerate(good):
        for j, feature in enumerate(schema.features):
            tried = [
                *values_of(feature, origin[row, j]),
                None,
                feature.lower + feature.step / 2,
                feature.upper + feature.step,
            ]
            candidates = np.repeat(origin[[row]], len(tried), axis=0)
            candidates[:, j] = [NAN if value is None else value for value in tried]
            each = feasible.row(place).repeat(len(tried))
            refused = violations(schema, each.origin, candidates, each)[:, j]
            assert [not no for no in refused] == [value in sets[row][j] for value in tried]
            own = None if math.isnan(origin[row, j]) else origin[row, j]
            assert feasible.movable[place, j] == (sets[row][j] != {own})


@settings(max_examples=250)
@given(st.data(), encodings)
def test_decode_of_any_point_violates_nothing(data: st.DataObject, encoding: Encoding) -> None:
    schema = data.draw(schemas())
    records, request = data.draw(record_matrices(schema, anywhere=True)), data.draw(requests(schema))
    encoder = Encoder.fit(schema, records, encoding)
    good = [row for row, error in enumerate(compile_each(schema, request, records)[1]) if error is None]
    assume(good)
    origin = records[good]
    feasible = compile_constraints(schema, request, origin)
    encoded = data.draw(points(len(good), encoder.width))
    decoded = encoder.decode(encoded, origin, feasible)
    assert not violations(schema, origin, decoded, feasible).any()
    frozen = ~feasible.movable
    np.testing.assert_array_equal(decoded[frozen], origin[frozen])


@given(st.data(), encodings)
def test_the_box_holds_frozen_columns_exactly_and_decodes_to_the_same_numbers(
    data: st.DataObject, encoding: Encoding
) -> None:
    schema = data.draw(schemas())
    records, request = data.draw(record_matrices(schema, anywhere=True)), data.draw(requests(schema))
    encoder = Encoder.fit(schema, records, encoding)
    good = [row for row, error in enumerate(compile_each(schema, request, records)[1]) if error is None]
    assume(good)
    feasible = compile_constraints(schema, request, records[good])
    box = encoded_bounds(encoder, feasible)
    assert (box.lower <= box.upper).all()
    frozen = ~feasible.movable[:, encoder.feature_of_column]
    start = encoder.encode(records[good])
    np.testing.assert_array_equal(box.lower[frozen], start[frozen])
    np.testing.assert_array_equal(box.upper[frozen], start[frozen])
    encoded = data.draw(points(len(good), encoder.width))
    inside = encoder.decode(np.clip(encoded, box.lower, box.upper), feasible=feasible)
    numeric = [j for j, feature in enumerate(schema.features) if not feature.is_categorical]
    np.testing.assert_array_equal(inside[:, numeric], encoder.decode(encoded, feasible=feasible)[:, numeric])
