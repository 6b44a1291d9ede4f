"""A schema from a frame, and each way that a frame can be unfit."""

import datetime

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from models.data.frames import to_records
from models.data.infer import infer_features, infer_schema, infer_step, sort_naturally
from models.data.schema import Feature, FeatureKind
from models.errors import DataError, SchemaError
from models.space.encoding import Encoder

ROWS = 12
LABEL = ["yes", "no"] * 6


def frame_with(**columns: object) -> pd.DataFrame:
    """Twelve rows: the columns given, and a label with two classes."""
    return pd.DataFrame({"size": range(ROWS), **columns, "label": LABEL})


def inferred(**columns: object) -> Feature:
    """The feature that the one column given becomes."""
    schema = infer_schema(frame_with(**columns), "label")
    return schema.features[schema.index(next(iter(columns)))]


def test_kinds_bounds_and_steps() -> None:
    assert inferred(x=range(3, 15)) == Feature("x", FeatureKind.INTEGER, 3, 14, least=0, most=124)
    assert inferred(x=[0.25, 1.5] * 6) == Feature("x", FeatureKind.NUMERIC, 0.25, 1.5, 0.01, least=0, most=14)
    assert inferred(x=["b", "a"] * 6) == Feature("x", FeatureKind.CATEGORICAL, categories=("a", "b"))
    assert inferred(x=[True, False] * 6).categories == ("False", "True")
    assert inferred(x=pd.Categorical(["hi", "lo"] * 6)).ordered is False


def test_an_ordered_categorical_keeps_its_order_without_unused_categories() -> None:
    column = pd.Categorical(["hi", "lo"] * 6, categories=["lo", "mid", "hi"], ordered=True)
    assert inferred(x=column) == Feature("x", FeatureKind.CATEGORICAL, categories=("lo", "hi"), ordered=True)


def test_missing_values_make_a_feature_nullable_and_do_not_change_its_kind() -> None:
    whole = Feature("x", FeatureKind.INTEGER, 0, 10, nullable=True, most=110)
    assert inferred(x=[None, *range(11)]) == whole
    assert inferred(x=pd.array([None, *range(11)], dtype="Int64")) == whole
    assert inferred(x=[None, *["a", "b"] * 5, "a"]).nullable


INCOMES = np.arange(11_000, 90_000, 700)
TERMS = np.tile(np.arange(12, 85, 6), 20)


@pytest.mark.parametrize(
    ("numbers", "step"),
    [
        (INCOMES, 100),
        (np.append(np.tile(INCOMES, 3), [12_345, 23_451, 50_505]), 100),
        (TERMS, 6),
        (np.append(TERMS, [7, 13, 55]), 6),
        (np.tile([12, 24, 36], 50), 12),
        (np.tile([12, 24, 36, 48, 60], 50), 12),
        (np.tile([1, 2, 3, 12, 24, 36], 50), 1),
        (np.arange(3, 200, 6), 3),
        (np.arange(5, 200, 6), 1),
        (np.arange(1, 60) / 20, 0.05),
        (np.arange(1, 60) / 100, 0.01),
        (np.float32(np.arange(1, 60) / 20), 0.05),
        (np.cumsum(np.full(60, 0.1)), 0.1),
        (np.arange(1, 60) * 2.5, 0.5),
        (np.append(np.arange(1, 200) * 250.0, 333.33), 250),
        (np.tile([36, 60], 50), 1),
        (np.tile([0, 1000], 50), 1),
        (np.tile([0, 2, 4, 6, 8], 50), 1),
        (np.append(np.zeros(980), np.arange(1, 21) * 7 + 1), 1),
        (np.append(np.ones(980), np.arange(1, 21) / 16), 0.0625),
        (-np.arange(100, 5000, 100), 100),
    ],
)
def test_the_step_is_the_greatest_that_nearly_all_have_in_common(numbers: NDArray[np.float64], step: float) -> None:
    """Incomes in hundreds were advised to the last euro, loan terms of 13 months were suggested."""
    assert infer_step(np.asarray(numbers, dtype=np.float64)) == step


def test_values_off_the_grid_survive_and_are_never_suggested() -> None:
    amounts = [*np.arange(1000, 90_000, 500), 12_345, 777]
    frame = pd.DataFrame({"amount": amounts, "label": [0, 1] * (len(amounts) // 2)})
    schema = infer_schema(frame, "label")
    (amount,) = schema.features
    assert (amount.step, amount.lower, amount.upper, amount.least) == (500, 1000, 89_500, 0)
    records = to_records(schema, frame)
    assert records[-2:, 0].tolist() == [12_345, 777]
    encoder = Encoder.fit(schema, records)
    points = encoder.encode(records)
    np.testing.assert_array_equal(encoder.decode(points, origin=records), records)
    moved = encoder.decode(points + 3000 / encoder.scale[0], origin=records)
    assert not (moved % 500).any()


def test_records_may_pass_what_was_seen_unless_somebody_says_that_they_cannot() -> None:
    """Savings of 0 could not be entered where the least seen was 100, nor an income above the highest."""
    frame = pd.DataFrame({"savings": np.arange(100, 12_100, 100), "net": range(-60, 60), "label": [0, 1] * 60})
    savings, net = infer_schema(frame, "label").features
    assert (savings.lower, savings.upper, savings.least, savings.most) == (100, 12_000, 0, 131_000)
    assert (net.lower, net.upper, net.least, net.most) == (-60, 59, -1250, 1249)
    stated = infer_schema(frame, "label", {"features": {"savings": {"upper": 12_345}, "net": {"least": -100}}})
    savings, net = stated.features
    assert (savings.upper, savings.least, savings.most) == (12_300, 0, 12_345), "suggested are round values only"
    assert (net.lower, net.least, net.most) == (-60, -100, 1249)
    with pytest.raises(SchemaError, match="'net' may hold -50 to 1249, which must include its bounds -60 to 59"):
        infer_schema(frame, "label", {"features": {"net": {"least": -50}}})


def test_steps_are_the_decimals_or_a_millionth_of_the_spread() -> None:
    assert infer_step(np.array([0.5, 1.27, 3.0])) == 0.01
    assert infer_step(np.array([1e-6, 2.0])) == 1e-6
    assert infer_step(np.array([0.0, 1 / 3, 2 / 3])) == 1e-7
    assert infer_step(np.array([0.0, 1e7 / 3, 2e7 / 3])) == 1.0
    assert infer_step(np.array([1e9 + 1 / 3, 1e9 + 2 / 3])) >= 1e9 / 2**46


@pytest.mark.parametrize("values", [np.arange(1, 100) / 3, np.repeat(np.arange(12) / 3, 500), -np.arange(1, 100) / 3])
def test_one_huge_value_does_not_make_the_step_coarse(values: NDArray[np.float64]) -> None:
    for extremes in ([1e8], [1e8, -1e8]):
        assert infer_step(values) <= infer_step(np.append(values, extremes)) <= 1e-5
    amounts = np.append(np.arange(1000) / 4, 999_999_999_999.0)
    assert infer_step(amounts) == 0.1, "the finest that reaches so far"


def test_a_value_beside_which_the_others_vanish_is_refused() -> None:
    values = [*np.arange(ROWS - 1) / 4, 1e20]
    with pytest.raises(DataError, match=r"'x' reaches 1e\+20, beside which its other values, .* 2.25 apart, vanish"):
        infer_schema(frame_with(x=values), "label")
    rare = pd.DataFrame({"x": [*[0] * 200, 1, 20], "label": [0, 1] * 101})
    assert infer_schema(rare, "label").features[0].step == 1, "where all lie on the grid, none does"


def test_natural_sorting() -> None:
    assert sort_naturally(["10", "9", "1.5"]) == ("1.5", "9", "10")
    assert sort_naturally(["b", "10", "9"]) == ("10", "9", "b")
    assert sort_naturally(["nan", "2", "10"]) == ("10", "2", "nan")


def test_classes_of_any_type_are_texts_in_natural_order() -> None:
    classes_of: list[tuple[list[object], tuple[str, ...]]] = [
        (["b", "a", "c"], ("a", "b", "c")),
        ([True, False, True], ("False", "True")),
        ([10, 9, 1], ("1", "9", "10")),
        ([1.0, 0.0, 2.5], ("0", "1", "2.5")),
    ]
    for labels, classes in classes_of:
        assert infer_schema(pd.DataFrame({"x": range(18), "y": labels * 6}), "y").classes == classes


def test_an_override_may_change_the_kind_while_the_schema_is_inferred() -> None:
    frame = frame_with(code=[1.0, 2.0, None] * 4, share=[0.5, 1.0] * 6)
    code = {"kind": "categorical", "ordered": True, "direction": "up"}
    schema = infer_schema(frame, "label", {"features": {"code": code, "size": {"kind": "numeric", "step": 0.5}}})
    assert schema.features[1].categories == ("1", "2") and schema.features[1].nullable
    assert schema.features[0] == Feature("size", FeatureKind.NUMERIC, 0, 11, 0.5, most=121)


def test_codes_are_numbers_where_an_override_says_so() -> None:
    frame = frame_with(code=["007", None, "12"] * 4)
    assert infer_schema(frame, "label").features[1].categories == ("007", "12")
    schema = infer_schema(frame, "label", {"features": {"code": {"kind": "integer"}}})
    assert schema.features[1] == Feature("code", FeatureKind.INTEGER, 7, 12, 1, nullable=True, least=0, most=62)
    assert to_records(schema, frame)[[0, 2], 1].tolist() == [7, 12]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": {"immutable": True}}, "name 'colour', which is no feature; the features are size, share, word"),
        ({"share": {"kind": "integer"}}, "'share' cannot be an integer, because it holds 0.5"),
        ({"word": {"kind": "numeric"}}, "'word' cannot be a number, because it holds 'a'"),
        ({"size": {"kind": "blob"}}, "'size' cannot be of kind 'blob'; the kinds are numeric, integer, categorical"),
        ({"size": {"lower": 3}}, "'size' exclude training data"),
    ],
)
def test_a_wrong_override_is_refused_by_name(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        infer_schema(frame_with(share=[0.5, 1.0] * 6, word=["a", "b"] * 6), "label", {"features": changes})


def test_a_column_named_like_a_protected_attribute_is_protected_until_it_is_lifted() -> None:
    frame = frame_with(gender=["m", "f"] * 6, account_age=range(ROWS))
    assert [feature.protected for feature in infer_schema(frame, "label").features] == [False, True, False]
    assert [feature.protected for feature in infer_features(frame)] == [False, True, False, False]
    lifted = infer_schema(frame, "label", {"features": {"gender": {"protected": False}}})
    assert not any(feature.immutable for feature in lifted.features)


def repeated_columns() -> pd.DataFrame:
    frame = frame_with(x=range(ROWS))
    return frame.set_axis(["size", "size", "label"], axis=1)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(), "frame is empty: it has 0 rows and 0 columns"),
        (frame_with().iloc[:0], "frame is empty: it has 0 rows and 2 columns"),
        (frame_with().drop(columns="label"), "no label column 'label'; the columns are size"),
        (frame_with()[["label"]], "no column besides the label 'label'"),
        (repeated_columns(), "column 'size' twice"),
        (frame_with().rename(columns={"size": 7}), "column name 7 is not text"),
        (frame_with().assign(label=pd.Series([None, *LABEL[1:]])), "Label 'label' is missing in 1 rows, the first"),
        (frame_with().assign(label="yes"), "Label 'label' has only one class, 'yes'"),
        (frame_with().assign(label=["rare", *["a"] * 5, *["b"] * 6]), "Class 'rare' of label 'label' has 1 of the 5"),
        (frame_with(x=[7] * ROWS), "'x' holds one value only, '7'; drop it"),
        (frame_with(x=[7, None] * 6), "'x' holds one value only, '7'; drop it, or name the missing values"),
        (frame_with(x=["a"] * ROWS), "'x' holds one value only, 'a'"),
        (frame_with(x=[None] * ROWS), "'x' holds no value at all"),
        (frame_with(x=[1.5, np.inf] * 6), "'x' holds an infinite number in row 2"),
        (frame_with(x=[None, -np.inf, 1] * 4), "'x' holds an infinite number in row 2"),
        (frame_with(x=[1e200, 1.5] * 6), "'x' reaches 1e\\+200, beyond 1e\\+100; rescale it"),
        (frame_with(x=[10**17, 10**17 + 64] * 6), "'x' reaches 1e\\+17, too large for its step 1"),
        (frame_with(x=[1e-200, 2e-200] * 6), "'x' varies only by 1e-200"),
        (frame_with(x=[f"id{row}" for row in range(ROWS)]), "'x' has 12 categories in 12 rows"),
        (frame_with(x=pd.date_range("2026-01-01", periods=ROWS)), "'x' holds dates; replace it by a number"),
        (frame_with(x=[datetime.date(2026, 1, day + 1) for day in range(ROWS)]), "'x' holds dates"),
        (frame_with(x=pd.to_timedelta(range(ROWS), unit="D")), "'x' holds time spans"),
        (frame_with(x=[[1], [2]] * 6), "'x' holds \\[1\\], neither a number nor text"),
    ],
)
def test_an_unfit_frame_is_refused_by_name(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        infer_schema(frame, "label")


@pytest.mark.parametrize("other", ["rent ", "\trent", "rent\u00a0"])
def test_texts_that_differ_only_in_spaces_are_refused(other: str) -> None:
    with pytest.raises(DataError, match=r"Column 'x' holds .*differ only in spaces"):
        inferred(x=["rent", other, "own"] * 4)
    with pytest.raises(DataError, match=r"Label 'label' holds .*differ only in spaces"):
        infer_schema(pd.DataFrame({"size": range(30), "label": ["rent", other, "own"] * 10}), "label")


def test_too_many_categories() -> None:
    frame = pd.DataFrame({"street": [f"s{row // 2}" for row in range(402)], "label": [0, 1] * 201})
    with pytest.raises(DataError, match=r"'street' has 201 categories in 402 rows, more than 200 .* its categories\.$"):
        infer_schema(frame, "label")
    padded = frame.assign(street=[f"{row // 2:03}" for row in range(402)])
    with pytest.raises(DataError, match="if it is a number, write it without leading zeros, unlike '000'"):
        infer_schema(padded, "label")
