"""The policy language: read and written, published as a JSON Schema, and one sentence for each mistake."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.actions.random_policies import random_policy, random_schema
from models.data.expressions import evaluate, linear_terms, names_of, parse_expression, parse_inequality
from models.data.policy import Policy, json_schema
from models.data.policy_checks import check_policy, formula_order
from models.data.schema import Direction, Feature, FeatureKind, Schema
from models.errors import SchemaError

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "docs" / "policy.schema.json"
SCHEMA = Schema(
    (
        Feature("age", FeatureKind.INTEGER, 18, 90, protected=True),
        Feature("income", FeatureKind.INTEGER, 0, 100_000, 100),
        Feature("debt", FeatureKind.INTEGER, 0, 50_000, 100),
        Feature("ratio", FeatureKind.NUMERIC, 0.0, 2.0, 0.01),
        Feature("late", FeatureKind.INTEGER, -9, 20, direction=Direction.DOWN),
        Feature("school", FeatureKind.CATEGORICAL, categories=("low", "mid", "high")),
        Feature("job", FeatureKind.CATEGORICAL, categories=("none", "some", "retired")),
    ),
    "label",
    ("no", "yes"),
)


def policy(features: dict[str, Any] | None = None, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"format": 1, "features": features or {}, "rules": list(rules)}


def rule(kind: str, **keys: object) -> dict[str, Any]:
    return {"rule": kind, **{key.rstrip("_"): value for key, value in keys.items()}}


TABLE = {"low": 1, "mid": 2, "high": 3}
MISTAKES = [
    ({"format": 2}, "needs 'format': 1, not 2"),
    ([], "Expected the policy to be an object"),
    (policy() | {"rule": []}, "The policy has the unknown key 'rule'; its keys are features, format, name, rules"),
    (policy() | {"rules": {}}, "Expected 'rules' of the policy to be a list of at most 1000 rules"),
    (policy({"income": 3}), "Expected feature 'income' to be an object"),
    (policy({"income": {"weigth": 1}}), "Feature 'income' has the unknown key 'weigth'; its keys are codes, grid"),
    (policy({"income": {"lever": "boss"}}), "an entry of 'lever' of feature 'income' to be one of applicant, lender"),
    (policy({"income": {"lever": []}}), "'income' has an empty list of levers"),
    (policy({"income": {"weight": True}}), "'weight' of feature 'income' to be a finite number, not True"),
    (policy({"income": {"weight": 10**400}}), "'weight' of feature 'income' to be a finite number"),
    (policy({"income": {"grid": {"offset": 1}}}), "'grid' of feature 'income' has no 'step': How far apart"),
    (policy({}, {"rule": "tme"}), "Rule 1 is of the kind 'tme'; the kinds are time, window, implies"),
    (policy({}, rule("time", name="ageing", feature="age")), r"Rule 1 \(ageing\) has no 'adds'"),
    (policy({"incom": {}}), "The policy names the feature 'incom', which is not there; the features are age, income"),
    (policy({}, rule("at_most_one", features=["age", "x"])), r"Rule 1 \(at_most_one\) names the feature 'x'"),
    (policy({}, rule("inequality", require="incom <= 3")), "names the feature 'incom'"),
    (policy({"income": {"order": ["a"]}}), "'income' is a number, so it has no 'order'"),
    (policy({"job": {"grid": {"step": 1}}}), "'job' has categories, so it has no 'grid'"),
    (policy({"school": {"order": ["low", "high"]}}), "'school' has an order that lacks category 'mid'"),
    (policy({"school": {"order": ["low", "mid", "high", "top"]}}), "has an order that has the unknown category 'top'"),
    (policy({"school": {"order": ["low", "low", "mid", "high"]}}), "has an order that lists a category twice"),
    (policy({"job": {"move": "up"}}), "'job' may only move up, but has no order"),
    (policy({"job": {"transitions": {"none": ["boss"]}}}), "'job' has transitions with the unknown category 'boss'"),
    (
        policy({"school": {"order": ["low", "mid", "high"], "move": "up", "transitions": {"high": ["low"]}}}),
        "'school' has the transition from 'high' to 'low', but may only move up",
    ),
    (policy({"late": {"move": "up"}}), "'late' may only move up, but by the schema only down"),
    (policy({"income": {"weight": 0}}), "'income' has the weight 0, which must be above 0"),
    (policy({"income": {"proposed": ["grid"]}}), "'income' marks 'grid' as proposed, which it does not say"),
    (policy({"income": {"past": True, "lever": "lender"}}), "is a past fact, so it cannot have the lever lender"),
    (policy({"income": {"past": True, "move": "up"}}), "'income' is a past fact, so it cannot have 'move'"),
    (policy({"age": {"lever": "applicant"}}), "'age' is immutable in the schema, so the lever applicant cannot"),
    (policy({"income": {"lever": ["nobody", "lender"]}}), "'income' is moved by nobody and by somebody"),
    (policy({"income": {"lever": "time"}}), "'income' has the lever time, but no rule of time moves it"),
    (policy({"income": {"lower": 5, "upper": 3}}), "'income' has the bounds 5 to 3, which hold nothing"),
    (policy({"income": {"codes": {"x": "no"}}}), "'income' has the code 'x', which is not a number"),
    (policy({"late": {"codes": {"-9": "none"}}}), "'late' has the code -9 at the end of its numbers; give 'lower'"),
    (policy({"income": {"grid": {"step": 250}}}), "'income' has a grid that is not on the multiples of its step 100"),
    (policy({"income": {"grid": {"step": 0}}}), "'income' has a grid of step 0, which must be above 0"),
    (
        policy({"income": {"grid": {"step": 900, "offset": 500}, "lower": 100, "upper": 400}}),
        "nothing lies between 100",
    ),
    (policy({"income": {"smallest_change": 200_000}}), "the smallest change 200000, but its bounds are 100000 apart"),
    (policy({"income": {"largest_share": 0}}), "'income' has the 'largest_share' 0, which must be above 0"),
    (policy({"income": {"smallest_change": 500, "largest_change": 200}}), "has a smallest change above its largest"),
    (policy({}, rule("time", feature="school", adds=1)), r"Rule 1 \(time\) moves 'school', which has categories"),
    (policy({}, rule("time", feature="age", adds=0)), r"Rule 1 \(time\) adds 0, so it moves nothing"),
    (policy({}, rule("time", feature="age", adds=1, months=0)), "has 0 months, which must be above 0"),
    (policy({}, rule("time", feature="late", adds=1)), "moves 'late' up, but by the schema it may only move down"),
    (
        policy({}, rule("time", feature="age", adds=1, while_={"age": {"at_least": 3}})),
        "holds while 'age' is something, but that feature follows others itself",
    ),
    (
        policy({}, rule("time", feature="age", adds=1, while_={"job": {"changed": True}})),
        "asks in 'while' for a change, which nobody has made yet",
    ),
    (policy({}, rule("window", feature="late", months=6, to=40)), "ends at 40, which is no value of 'late'"),
    (policy({"age": {"move": "up"}}, rule("time", feature="age", adds=1)), "'age' is moved by rule 1 .*no 'move'"),
    (policy({"age": {"lever": "lender"}}, rule("time", feature="age", adds=1)), "its lever is time, not lender"),
    (policy({}, rule("formula", feature="ratio")), "needs either 'equals' or 'table'"),
    (policy({}, rule("formula", feature="ratio", equals="3")), "reads no feature, so it computes nothing"),
    (policy({}, rule("formula", feature="ratio", equals="debt / job")), "computes with 'job', which has categories"),
    (policy({}, rule("formula", feature="ratio", equals="before(debt)")), r"with before\(...\), which only inequal"),
    (policy({"ratio": {"past": True}}, rule("formula", feature="ratio", equals="debt")), "is computed by .* no 'past'"),
    (policy({"ratio": {"lever": "lender"}}, rule("formula", feature="ratio", equals="debt")), "so no lever moves it"),
    (
        policy({}, rule("formula", feature="ratio", table={"feature": "school", "values": {"low": 1, "mid": 2}})),
        "has a table that lacks category 'high'",
    ),
    (
        policy({}, rule("formula", feature="job", table={"feature": "school", "values": TABLE}, keep="none")),
        "has 1.0 in its table, which is no value of 'job'",
    ),
    (
        policy({}, rule("formula", feature="job", table={"feature": "school", "values": dict.fromkeys(TABLE, "none")})),
        "has 'job', which has categories, keep the difference; set 'keep' to none",
    ),
    (
        policy(
            {}, rule("formula", feature="debt", equals="ratio"), rule("formula", feature="ratio", equals="2 * debt")
        ),
        "The formulas go round in a circle, among them .*: 'debt' from 'ratio' from 'debt'",
    ),
    (policy({}, rule("formula", feature="debt", equals="debt + 1")), "'debt' from 'debt'"),
    (
        policy({}, rule("time", feature="debt", adds=1), rule("formula", feature="debt", equals="income")),
        r"Rule 1 \(time\) and rule 2 \(formula\) both say what 'debt' becomes; keep one of them",
    ),
    (
        policy({}, rule("inequality", name="a", require="1 <= age"), rule("inequality", name="a", require="2 <= age")),
        "The name 'a' stands for two rules",
    ),
    (policy({}, rule("inequality", require="1 <= 2")), "names no feature"),
    (policy({}, rule("inequality", require="school <= 2")), "computes with 'school', which has categories"),
    (policy({}, rule("inequality", require="age >= 100 + debt")), "can never hold: within the bounds of its features"),
    (policy({}, rule("inequality", require="age = 3")), "cannot be read: 'age = 3' cannot be read from '= 3' on"),
    (policy({}, rule("inequality", require="age <= ")), "needs a number or a feature where it has its end"),
    (policy({}, rule("inequality", require="sin(age) <= 1")), "calls sin; only min, max and before can be called"),
    (policy({}, rule("inequality", require="before(1) <= age")), "needs the name of a feature in before"),
    (policy({}, rule("inequality", require="(" * 50 + "age <= 1")), "is nested deeper than 40"),
    (policy({}, rule("inequality", require="age <= " + "1+" * 300 + "1")), "has 608 characters; 500 are the most"),
    (policy({}, rule("implies", if_={}, then={"age": {"at_least": 1}})), "needs at least one condition in 'if'"),
    (policy({}, rule("implies", if_={"age": {}}, then={"job": {"in": ["none"]}})), "asks nothing of 'age'"),
    (
        policy({}, rule("implies", if_={"age": {"at_least": 9, "at_most": 3}}, then={"job": {"in": ["none"]}})),
        "asks 'age' to be at least 9 and at most 3",
    ),
    (
        policy({}, rule("implies", if_={"job": {"at_least": 9}}, then={"job": {"in": ["none"]}})),
        "compares 'job' with a number, but it has categories",
    ),
    (
        policy({}, rule("implies", if_={"job": {"in": [3]}}, then={"age": {"in": [3]}})),
        "lists 3, which is no value of 'job'",
    ),
    (
        policy({}, rule("implies", if_={"age": {"in": [3]}}, then={"job": {"in": ["boss"]}})),
        "lists 'boss', which is no category of 'job'",
    ),
    (
        policy({}, rule("implies", if_={"age": {"in": [3]}}, then={"job": {"in": ["none"], "not_in": ["none"]}})),
        "leaves 'job' no value",
    ),
    (
        policy(
            {},
            rule("implies", if_={"age": {"at_least": 9}}, then={"job": {"in": ["none"]}}),
            rule("implies", if_={"age": {"at_least": 9}, "debt": {"in": [0]}}, then={"job": {"in": ["some"]}}),
        ),
        r"Rule 1 \(implies\) and rule 2 \(implies\) leave 'job' no value where both apply",
    ),
    (policy({}, rule("at_most_one", features=["age", "age"])), "needs two or more different features"),
    (
        policy({}, rule("at_most_one", features=["age", "debt"]), rule("formula", feature="debt", equals="income")),
        "lists 'debt', which a formula computes",
    ),
]


@pytest.mark.parametrize(("document", "sentence"), MISTAKES, ids=lambda value: None if isinstance(value, str) else "")
def test_each_mistake_is_one_sentence(document: object, sentence: str) -> None:
    with pytest.raises(SchemaError, match=sentence) as caught:
        check_policy(SCHEMA, Policy.from_json(document))
    assert str(caught.value).endswith(".") and str(caught.value).count(". ") == 0


def test_several_mistakes_are_told_at_once() -> None:
    document = policy({"incom": {}, "income": {"weight": 0}}, rule("inequality", require="1 <= 2"))
    with pytest.raises(SchemaError, match=r"'incom'.*the weight 0.*Rule 1 \(inequality\) names no feature"):
        check_policy(SCHEMA, Policy.from_json(document))


def test_the_published_schema_is_that_of_the_code() -> None:
    """RECOURSE_WRITE_SCHEMA=1 pytest tests/models/data/test_policy.py writes it anew."""
    text = json.dumps(json_schema(), indent=1) + "\n"
    if os.environ.get("RECOURSE_WRITE_SCHEMA"):
        PUBLISHED.write_text(text, encoding="utf-8")
    assert PUBLISHED.read_text(encoding="utf-8") == text


@given(st.integers(0, 2**40))
def test_policies_are_read_back_and_the_published_schema_takes_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    document = random_policy(random_schema(random, 6), random)
    jsonschema.Draft202012Validator(json_schema()).validate(document)
    found = Policy.from_json(document)
    assert Policy.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert found.version == Policy.from_json(found.to_json()).version
    assert hash(found) == hash(Policy.from_json(document))


@pytest.mark.parametrize("position", range(3, 13))
def test_the_published_schema_refuses_what_cannot_be_read(position: int) -> None:
    document = MISTAKES[position][0]
    if document in (policy({"income": {"lever": []}}), policy({"income": {"weight": 10**400}})):
        return  # what only the program says
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json_schema()).validate(document)


def test_a_version_tells_policies_apart() -> None:
    one, other = policy({"income": {"lower": 1}}), policy({"income": {"lower": 2}})
    assert Policy.from_json(one).version != Policy.from_json(other).version
    assert Policy.from_json(one).version == Policy.from_json(one | {"name": ""}).version
    assert Policy.from_json(one).version.startswith("policy-")


def test_what_was_proposed_can_be_switched_off_and_what_is_written_wins() -> None:
    guess = rule("inequality", require="debt <= income", proposed=True, note="in 9,871 of 9,871 rows")
    proposed = Policy.from_json(policy({"income": {"lower": 5, "upper": 9, "proposed": ["lower", "upper"]}}, guess))
    mine = Policy.from_json(
        policy({"income": {"lower": 7}, "debt": {"past": True}}, rule("time", feature="age", adds=1))
    )
    both = mine.over(proposed)
    assert both.of("income").lower == 7 and both.of("income").upper == 9 and both.of("income").proposed == ("upper",)
    assert [each.KIND for each in both.rules] == ["time", "inequality"]
    assert mine.over(mine) == mine
    alone = both.without_proposed()
    assert alone.of("income").upper is None and [each.KIND for each in alone.rules] == ["time"]
    assert alone.to_json() == mine.to_json()


def test_parts_can_be_lifted() -> None:
    found = Policy.from_json(
        policy({"income": {"lever": "lender", "weight": 3}}, rule("inequality", name="debts", require="debt <= income"))
    )
    assert found.parts() == ("lever of 'income'", "rule 1 (debts)")
    lifted = found.without(frozenset(found.parts()))
    assert lifted.of("income").lever is None and lifted.of("income").weight == 3 and not lifted.rules


@given(st.lists(st.sampled_from(["a", "b", "2", "0.5", "1e1"]), min_size=1, max_size=8), st.data())
def test_expressions_are_computed_as_python_does(words: list[str], data: st.DataObject) -> None:
    text = words[0]
    for word in words[1:]:
        text = f"{text} {data.draw(st.sampled_from('+-*/'))} {data.draw(st.sampled_from(['', '-', '- ']))}{word}"
        if data.draw(st.booleans()):
            text = data.draw(st.sampled_from(["({})", "min({}, 3)", "max(1, {}, b)", "-({})"])).format(text)
    values = {"a": 3.0, "b": -7.5}
    found = evaluate(parse_expression(text), lambda name: np.array(values[name]), lambda name: np.array(0.0))
    assert float(found) == eval(text, {"min": min, "max": max}, values)
    if (terms := linear_terms(parse_expression(text))) is not None:
        sum_of = terms.get("", 0.0) + sum(factor * values[name] for name, factor in terms.items() if name)
        assert sum_of == pytest.approx(float(found), rel=1e-9, abs=1e-9)


def test_names_of_expressions() -> None:
    left, right = parse_inequality("`hours-per-week` * x >= 2 * before(y) + max(x, `a b`)")
    assert names_of(right) == ("hours-per-week", "x") and names_of(left) == ("y", "x", "a b")
    assert linear_terms(parse_expression("x * y")) is None and linear_terms(parse_expression("2 / x")) is None
    assert linear_terms(parse_expression("3 - 2 * (x - y) / 4")) == {"": 3.0, "x": -0.5, "y": 0.5}
    value = evaluate(parse_expression("min(1, 1 / x)"), lambda name: np.array([0.0, 2.0]), lambda name: np.array(0.0))
    assert np.isnan(value[0]) and value[1] == 0.5


def test_formulas_are_ordered_by_what_they_read() -> None:
    found = Policy.from_json(
        policy({}, rule("formula", feature="ratio", equals="debt"), rule("formula", feature="debt", equals="income"))
    )
    assert [each.feature for each in formula_order(found)] == ["debt", "ratio"]
