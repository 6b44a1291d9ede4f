"""Records in and out of the record matrix, one at a time and by the frame."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.data.frames import labels_to_codes, to_records
from models.data.infer import infer_schema
from models.data.records import check_record, from_records, record_notices
from models.data.schema import Feature, FeatureKind, Schema
from models.errors import RecordError, SchemaError
from tests.models.schemas import record_matrices, schemas

SCHEMA = Schema(
    (
        Feature("age", FeatureKind.INTEGER, 17, 90),
        Feature("ratio", FeatureKind.NUMERIC, 0.0, 1.5, 0.01),
        Feature("grade", FeatureKind.CATEGORICAL, categories=("1", "2", "high"), nullable=True),
        Feature("owner", FeatureKind.CATEGORICAL, categories=("False", "True")),
    ),
    "decision",
    ("no", "yes"),
)
GOOD: dict[str, object] = {"age": 30, "ratio": 0.30000000000000004, "grade": "high", "owner": True}


def test_known_rows() -> None:
    assert check_record(SCHEMA, GOOD).tolist() == [[30, 0.3, 2, 1]]
    others = GOOD | {"age": 30.0, "grade": 2, "owner": np.bool_(False), "decision": "yes"}
    assert check_record(SCHEMA, others).tolist() == [[30, 0.3, 1, 0]]
    assert np.isnan(check_record(SCHEMA, GOOD | {"grade": None})[0, 2])


def test_missing_values_are_accepted_only_where_the_schema_allows_them() -> None:
    """A model that has never seen one missing took the median for it: 90 of 200 refused records became approved."""
    empty: dict[str, object] = {"age": None, "ratio": float("nan"), "grade": None, "owner": None}
    with pytest.raises(RecordError, match=r"^Columns 'age', 'ratio', 'owner' have no value; the schema does not allow"):
        check_record(SCHEMA, empty)
    with pytest.raises(RecordError, match=r"^Row 2, column 'age' has no value.* Row 2, column 'ratio' .* 'owner' has"):
        to_records(SCHEMA, pd.DataFrame([GOOD, empty]))
    schema = SCHEMA.with_overrides({"features": {name: {"nullable": True} for name in SCHEMA.names}})
    assert np.isnan(check_record(schema, empty)).all()
    with pytest.raises(SchemaError, match="'grade' are missing in the training data, so 'nullable' cannot be false"):
        schema.with_overrides({"features": {"grade": {"nullable": False}}})


def test_all_that_is_wrong_with_a_record_is_told_at_once() -> None:
    bad: dict[str, object] = {"age": None, "ratio": "x", "weight": 1, "owner": "maybe"}
    with pytest.raises(RecordError) as told:
        check_record(SCHEMA, bad)
    sentences = str(told.value).split(". ")
    assert [next(name for name in (*SCHEMA.names, "weight") if name in each) for each in sentences] == [
        *("grade", "weight", "age", "ratio", "owner")
    ]
    many = Schema(tuple(Feature(f"x{n}", FeatureKind.INTEGER, 0, 9) for n in range(500)), "y", ("no", "yes"))
    with pytest.raises(RecordError, match=r"'x18', 'x19' and 480 more; give every feature"):
        check_record(many, {})
    with pytest.raises(RecordError, match=r"There are 480 more such faults\.$") as cut:
        check_record(many, dict.fromkeys(many.names, "x"))
    assert len(str(cut.value)) < 2000


def test_values_come_back_as_a_person_writes_them() -> None:
    rows = np.array([[30, 0.3, 2, 1], [np.nan, np.nan, np.nan, np.nan]])
    whole, empty = from_records(SCHEMA, rows)
    assert whole == {"age": 30, "ratio": 0.3, "grade": "high", "owner": "True"}
    assert isinstance(whole["age"], int)
    assert set(empty.values()) == {None}


@given(st.data())
def test_records_survive_the_way_out_and_back(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    records = data.draw(record_matrices(schema))
    frame = pd.DataFrame(from_records(schema, records), columns=list(schema.names), dtype=object)
    np.testing.assert_array_equal(to_records(schema, frame), records)
    alone = [check_record(schema, record) for record in from_records(schema, records)]
    np.testing.assert_array_equal(np.concatenate(alone), records)


BAD = [
    ("grade", "low", "'grade' holds the unknown category 'low'; its categories are 1, 2, high"),
    ("grade", "", "'grade' holds the unknown category ''"),
    ("age", 16, "'age' holds 16, outside its bounds 17 to 90"),
    ("age", 1e300, "'age' holds 1e\\+300, outside its bounds 17 to 90"),
    ("age", 30.5, "'age' holds 30.5, which is not a whole number"),
    ("ratio", float("inf"), "'ratio' holds the infinite number inf"),
    ("ratio", 1.506, "'ratio' holds 1.506, outside its bounds 0 to 1.5"),
    ("ratio", "0.3", "'ratio' holds '0.3', which is not a number"),
    ("ratio", True, "'ratio' holds True, which is not a number"),
    ("ratio", [1], "'ratio' holds \\[1\\], which is not a number"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_a_bad_value_is_named_alone_and_in_a_frame(name: str, value: object, message: str) -> None:
    with pytest.raises(RecordError, match=f"^Column {message}"):
        check_record(SCHEMA, GOOD | {name: value})
    frame = pd.DataFrame([GOOD, GOOD | {name: value}])
    with pytest.raises(RecordError, match=f"^Row 2, column {message}"):
        to_records(SCHEMA, frame)


@pytest.mark.parametrize("name", ["ratio", "grade"])
def test_a_value_nested_without_end_is_named_too(name: str) -> None:
    deep: object = 1
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(RecordError, match=f"^Column '{name}' holds "):
        check_record(SCHEMA, GOOD | {name: deep})


def test_the_two_ways_in_agree_on_the_edge_of_the_bounds() -> None:
    for value in (1.5000000000000002, 0.304, 1.4999999, np.float32(0.07), 1.5):
        row = check_record(SCHEMA, GOOD | {"ratio": value})
        np.testing.assert_array_equal(row, to_records(SCHEMA, pd.DataFrame([GOOD | {"ratio": value}])))


def test_columns_must_be_those_of_the_schema() -> None:
    frame = pd.DataFrame([GOOD])
    with pytest.raises(RecordError, match="no column 'ratio'"):
        to_records(SCHEMA, frame.drop(columns="ratio"))
    with pytest.raises(RecordError, match="column 'weight', which the schema does not know"):
        to_records(SCHEMA, frame.assign(weight=1))
    with pytest.raises(RecordError, match="column 'age' twice"):
        to_records(SCHEMA, pd.concat([frame, frame[["age"]]], axis=1))
    with pytest.raises(RecordError, match="record has no columns 'age', 'ratio', 'grade', 'owner'"):
        check_record(SCHEMA, {})
    shuffled = frame.assign(decision="yes")[["decision", "owner", "grade", "ratio", "age"]]
    assert to_records(SCHEMA, shuffled).tolist() == [[30, 0.3, 2, 1]]


def test_only_what_lies_beyond_the_training_data_is_noticed() -> None:
    """The least value seen was 130, between two multiples of 100: the bounds are those of what may be suggested."""
    rows = [float(value) for value in range(200, 20_000, 100)]
    schema = infer_schema(pd.DataFrame({"savings": [130.0, *rows], "ok": ["yes", "no"] * 99 + ["no"]}), "ok")
    savings = schema.features[0]
    assert (savings.step, savings.lower, savings.upper) == (100, 200, 19_900)
    for value, told in ((130, False), (19_950, False), (200, False), (100, True), (0, True), (20_000, True)):
        (notice,) = record_notices(schema, np.array([float(value)])) or ("",)
        assert notice.startswith(f"'savings' is {value}, beyond the 200 to 19900 of the training data") is told


def test_labels_become_codes() -> None:
    assert labels_to_codes(SCHEMA, pd.Series(["yes", "no", "yes"])).tolist() == [1, 0, 1]
    numbered = Schema(SCHEMA.features, "decision", ("0", "1"))
    assert labels_to_codes(numbered, pd.Series([1.0, 0.0])).tolist() == [1, 0]
    with pytest.raises(RecordError, match="Row 2, label 'decision' is 'maybe'; the classes are no, yes"):
        labels_to_codes(SCHEMA, pd.Series(["yes", "maybe"]))
    with pytest.raises(RecordError, match="Row 1, label 'decision' is missing"):
        labels_to_codes(SCHEMA, pd.Series([None, "yes"]))
