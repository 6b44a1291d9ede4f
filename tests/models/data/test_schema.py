"""Features, schemas, their overrides and their JSON."""

import json
import subprocess
import sys

import pytest
from hypothesis import given

from models.data.schema import Direction, Feature, FeatureKind, Schema
from models.errors import SchemaError
from tests.models.schemas import schemas

AGE = Feature("age", FeatureKind.INTEGER, 17, 90)
RATIO = Feature("ratio", FeatureKind.NUMERIC, 0.0, 1.5, 0.01)
GRADE = Feature("grade", FeatureKind.CATEGORICAL, categories=("high", "low", "mid"))
SCHEMA = Schema((AGE, RATIO, GRADE), "decision", ("no", "yes"))


def test_names_and_index_follow_the_columns() -> None:
    assert SCHEMA.names == ("age", "ratio", "grade")
    assert SCHEMA.index("grade") == 2
    with pytest.raises(SchemaError, match="no feature 'weight'; the features are age, ratio, grade"):
        SCHEMA.index("weight")


def test_protected_implies_immutable() -> None:
    assert Feature("sex", FeatureKind.CATEGORICAL, categories=("f", "m"), protected=True).immutable


def test_categorical_bounds_are_those_of_its_index() -> None:
    assert (GRADE.lower, GRADE.upper, GRADE.step) == (0.0, 2.0, 1.0)


@given(schemas())
def test_json_round_trip(schema: Schema) -> None:
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


def test_overrides_change_what_they_name_and_nothing_else() -> None:
    ordered = {"categories": ["low", "mid", "high"], "ordered": True, "direction": "up"}
    changes = {"age": {"direction": "up", "upper": 99}, "ratio": {"protected": True}, "grade": ordered}
    age, ratio, grade = SCHEMA.with_overrides({"features": changes}).features
    assert age == Feature("age", FeatureKind.INTEGER, 17, 99, direction=Direction.UP)
    assert ratio.protected and ratio.immutable and ratio.upper == 1.5
    assert grade.categories == ("low", "mid", "high") and grade.direction is Direction.UP
    assert SCHEMA.with_overrides({}) == SCHEMA


def test_an_order_is_stated_by_itself_or_by_the_order_of_the_categories() -> None:
    order = ["low", "mid", "high"]
    stated = SCHEMA.with_overrides({"features": {"grade": {"order": order, "direction": "up"}}})
    grade = stated.features[2]
    assert grade.ordered and grade.categories == ("high", "low", "mid") and grade.ranks == (2, 0, 1)
    assert Schema.from_json(json.loads(json.dumps(stated.to_json()))) == stated
    listed = SCHEMA.with_overrides({"features": {"grade": {"categories": order, "ordered": True}}}).features[2]
    assert listed.order == tuple(order) and listed.ranks == (0, 1, 2) and "order" not in listed.to_json()
    assert stated.with_overrides({"features": {"grade": {"order": [], "direction": "any"}}}) == SCHEMA
    assert stated.with_overrides({"features": {"grade": {"categories": order}}}).features[2].order == tuple(order)


def test_a_coarser_step_moves_the_bounds_to_its_grid() -> None:
    age = SCHEMA.with_overrides({"features": {"age": {"step": 10}}}).features[0]
    assert (age.lower, age.upper, age.step) == (20, 90, 10)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("weight", {}, "no feature 'weight'"),
        ("age", {"colour": 1}, "'age' has the unknown key 'colour'; the keys are .*kind"),
        ("age", {"lower": 95}, "'age' has the bounds 95 to 90"),
        ("age", {"lower": 18}, "bounds 18 to 90 of 'age' exclude training data, which reaches from 17 to 90"),
        ("age", {"upper": 60}, "'age' exclude training data"),
        ("age", {"step": 0}, "'age' has the step 0"),
        ("age", {"step": -1}, "'age' has the step -1"),
        ("age", {"step": 0.5}, "'age' is an integer, so its step 0.5"),
        ("age", {"step": 200}, "'age' has the bounds 0 to 0"),
        ("age", {"lower": 16.5, "step": 1}, "'age' has the bound 16.5, which is no multiple of its step 1"),
        ("age", {"lower": "low"}, "'lower' of feature 'age' to be a number, not 'low'"),
        ("age", {"lower": True}, "'lower' of feature 'age' to be a number"),
        ("age", {"upper": float("inf")}, "'age' has the bounds 17 to inf"),
        ("age", {"upper": 10**400}, "'upper' of feature 'age' to be a number that is not so large"),
        ("age", {"step": 1, "categories": ["a", "b"]}, "'age' is integer, so it has no categories"),
        ("age", {"direction": "sideways"}, "'direction' of feature 'age' to be one of any, up, down"),
        ("age", {"immutable": "yes"}, "'immutable' of feature 'age' to be true or false"),
        ("age", {"kind": "categorical"}, "kind of 'age' can be set only while the schema is inferred"),
        ("age", {"protected": True, "immutable": False}, "'age' is protected, so it cannot be mutable"),
        ("ratio", {"step": 1e-18}, "'ratio' has the step 1e-18, too fine"),
        ("grade", {"direction": "up"}, "'grade' has no order, so it cannot move only up"),
        ("grade", {"order": ["low", "high"]}, "order of 'grade' lacks mid; it must name every category"),
        (
            "grade",
            {"order": ["low", "mid", "high", "top"]},
            "order of 'grade' names 'top', but its categories are high",
        ),
        ("grade", {"order": ["low", "mid", "high", "low"]}, "order of 'grade' names 'low' twice"),
        ("grade", {"order": ["low", "mid", "high"], "ordered": False}, "'grade' has an 'order', so 'ordered'"),
        ("grade", {"order": "low"}, "'order' of feature 'grade' to be a list of texts"),
        ("age", {"order": ["17", "18"]}, "'age' is integer, so it has no categories"),
        ("grade", {"lower": 1}, "'grade' is categorical, so it has no 'lower'"),
        ("grade", {"categories": ["low", "mid"]}, "'grade' may be reordered, not added or left out: high"),
        ("grade", {"categories": ["low", "mid", "high", "top"]}, "left out: top"),
        ("grade", {"categories": ["low", "low"]}, "'grade' needs two or more distinct categories"),
        ("grade", {"categories": [1, 2, 3]}, "'categories' of feature 'grade' to be a list of texts"),
    ],
)
def test_a_wrong_override_is_refused_by_name(name: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        SCHEMA.with_overrides({"features": {name: change}})


def test_a_protected_feature_is_fixed_until_the_protection_itself_is_lifted() -> None:
    guarded = SCHEMA.with_overrides({"features": {"age": {"protected": True}}})
    assert guarded.features[guarded.index("age")].immutable
    with pytest.raises(SchemaError, match="'age' is protected, so it cannot be mutable; set 'protected' to false"):
        guarded.with_overrides({"features": {"age": {"immutable": False}}})
    assert guarded.with_overrides({"features": {"age": {"protected": False}}}) == SCHEMA
    fixed = guarded.with_overrides({"features": {"age": {"protected": False, "immutable": True}}})
    assert fixed.features[fixed.index("age")].immutable


def test_overrides_of_a_wrong_form_are_refused() -> None:
    with pytest.raises(SchemaError, match="unknown key 'feature'"):
        SCHEMA.with_overrides({"feature": {}})
    with pytest.raises(SchemaError, match="override of 'age' to be an object"):
        SCHEMA.with_overrides({"features": {"age": "up"}})


@pytest.mark.parametrize(
    ("features", "classes", "message"),
    [
        ((), ("a", "b"), "at least one feature"),
        ((AGE, AGE), ("a", "b"), "name 'age' is used twice"),
        ((Feature("decision", FeatureKind.INTEGER, 0, 1),), ("a", "b"), "name 'decision' is used twice"),
        ((AGE,), ("a",), "two or more distinct classes"),
        ((AGE,), ("a", "a"), "two or more distinct classes"),
    ],
)
def test_a_schema_that_contradicts_itself(
    features: tuple[Feature, ...], classes: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema(features, "decision", classes)


def test_a_document_of_another_version_or_form() -> None:
    document = SCHEMA.to_json()
    with pytest.raises(SchemaError, match="version 7; this program reads version 1"):
        Schema.from_json(document | {"version": 7})
    with pytest.raises(SchemaError, match="list 'features'"):
        Schema.from_json(document | {"features": None})
    with pytest.raises(SchemaError, match="Feature 'age' has a missing or unknown key 'categories'"):
        Schema.from_json(document | {"features": [{"name": "age"}]})


def test_the_plain_install_needs_no_torch_pandas_or_sklearn_for_schema_and_records() -> None:
    imports = "import sys, models.data.schema, models.data.records, models.errors"
    code = f"{imports}; print({{'torch', 'pandas', 'sklearn'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
