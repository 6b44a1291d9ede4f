"""Action policies by example: what a person would work out by hand."""

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.actions import checker
from models.data.frames import to_records
from models.data.infer import infer_schema
from models.data.policy import Lever, Policy
from models.data.records import Value, check_record, from_records
from models.data.schema import Direction, Feature, FeatureKind, Schema
from models.datasets.loans import loans
from models.errors import ConstraintError
from models.space.actions import Action, Actions, Change, join_actions
from models.space.binding import bind
from models.space.compiled_policy import compile_policy, impossible_rows
from models.space.constraints import Constraints, compile_constraints
from models.space.repair import repair

ROOT = Path(__file__).parents[3]
SCHEMA = Schema(
    (
        Feature("age", FeatureKind.INTEGER, 18, 99, protected=True),
        Feature("tenure", FeatureKind.NUMERIC, 0.0, 40.0, 0.1, nullable=True),
        Feature("late", FeatureKind.INTEGER, 0, 12, direction=Direction.DOWN),
        Feature("term", FeatureKind.INTEGER, 6, 84),
        Feature("loan", FeatureKind.INTEGER, 0, 50_000, 500),
        Feature("income", FeatureKind.INTEGER, 0, 200_000, 100),
        Feature("ratio", FeatureKind.NUMERIC, 0.0, 3.0, 0.01),
        Feature("score", FeatureKind.INTEGER, -9, 100, least=-9),
        Feature("job", FeatureKind.CATEGORICAL, categories=("none", "some", "retired")),
        Feature("school", FeatureKind.CATEGORICAL, categories=("high", "low", "mid")),
    ),
    "label",
    ("no", "yes"),
)
OWN = {
    **{"age": 35, "tenure": 3.0, "late": 6, "term": 36, "loan": 10_000, "income": 40_000, "ratio": 0.25},
    **{"score": -7, "job": "some", "school": "low"},
}
POLICY: dict[str, Any] = {
    "format": 1,
    "features": {
        "term": {"lever": "lender", "grid": {"step": 6}, "lower": 24},
        "loan": {"lever": ["lender", "applicant"], "move": "down", "smallest_change": 1000, "largest_share": 0.5},
        "income": {"move": "up", "largest_change": 5000},
        "score": {
            "codes": {"-7": "no account", "-9": "no record"},
            "lower": 0,
            "leave_codes": True,
            "smallest_change": 9,
        },
        "job": {"transitions": {"none": ["some"], "some": ["retired"]}},
        "school": {"order": ["low", "mid", "high"], "move": "up"},
    },
    "rules": [
        {"rule": "time", "feature": "age", "adds": 1, "months": 12},
        {"rule": "time", "feature": "tenure", "adds": 1, "months": 12, "while": {"job": {"in": ["some"]}}},
        {"rule": "window", "feature": "late", "months": 24, "falls": "evenly"},
        {"rule": "formula", "feature": "ratio", "equals": "loan / income"},
        {"rule": "inequality", "name": "room", "require": "loan <= 300 * term"},
        {"rule": "at_most_one", "features": ["job", "school"]},
    ],
}


def actions(levers: tuple[str, ...] = ("applicant", "time"), months: int = 24, **changes: Value) -> Actions:
    origin = check_record(SCHEMA, OWN | changes)
    compiled = compile_policy(SCHEMA, Policy.from_json(POLICY))
    base = compile_constraints(compiled.schema, Constraints(), origin)
    found, errors = bind(compiled, base, [Lever(lever) for lever in levers], months)
    assert errors == [None]
    return found


def completed(found: Actions, months: int | None = None, **changes: Value) -> dict[str, Any]:
    """The candidate that differs from the record in `changes`, completed, as far as it differs then."""
    own = from_records(SCHEMA, found.origin)[0]
    tried = check_record(SCHEMA, own | changes)[None]
    waits = None if months is None else np.array([[months]])
    new = from_records(SCHEMA, found.complete(tried, waits)[0])[0]
    return {name: value for name, value in new.items() if value != own[name]}


def allowed(found: Actions, **changes: Value) -> bool:
    own = from_records(SCHEMA, found.origin)[0]
    return bool(found.allowed(check_record(SCHEMA, own | changes)[None])[0, 0])


def test_what_moves_with_time_moves_together() -> None:
    found = actions()
    assert completed(found, late=5) == {"late": 5, "tenure": 3.3}  # four months: a late payment falls out
    assert completed(found, tenure=3.1) == {"tenure": 3.1}
    assert completed(found, age=36) == {"age": 36, "tenure": 4.0, "late": 3}
    assert completed(found, months=13) == {"age": 36, "tenure": 4.0, "late": 3}
    assert completed(found, months=99) == {"age": 37, "tenure": 5.0, "late": 0}
    assert completed(found, late=0, tenure=None, job="retired") == {"age": 37, "late": 0, "job": "retired"}
    assert not allowed(found, age=36) and allowed(found, age=36, tenure=4.0, late=3)
    assert not allowed(found, age=34) and not allowed(found, late=5)


def test_without_the_lever_or_the_months_time_stands_still() -> None:
    assert completed(actions(("applicant",)), late=0, age=40) == {}
    assert completed(actions(months=0), late=0, age=40) == {}
    assert completed(actions(months=3), late=0) == {}  # none falls out so soon
    assert completed(actions(months=3), tenure=9.9) == {"tenure": 3.2}
    assert not actions(("lender",)).feasible.movable[0, :3].any()


def test_a_formula_keeps_the_difference_or_the_ratio() -> None:
    found = actions()
    assert completed(found, loan=5000) == {"loan": 5000, "ratio": 0.12}  # 0.125, to the even hundredth
    assert completed(actions(ratio=0.5), loan=5000) == {"loan": 5000, "ratio": 0.38}
    assert completed(found, ratio=0.9) == {} and not allowed(found, ratio=0.9)
    ratio = {
        **POLICY,
        "rules": [{**rule, "keep": "ratio"} if rule["rule"] == "formula" else rule for rule in POLICY["rules"]],
    }
    compiled = compile_policy(SCHEMA, Policy.from_json(ratio))
    base = compile_constraints(compiled.schema, Constraints(), check_record(SCHEMA, OWN | {"ratio": 0.5}))
    assert completed(bind(compiled, base)[0], loan=5000) == {"loan": 5000, "ratio": 0.25}
    broke = actions(income=0)
    assert completed(broke, loan=5000) == {"loan": 5000} and not allowed(broke, loan=5000)
    assert allowed(broke, job="retired")


def test_levers_keep_advice_and_counter_offers_apart() -> None:
    advice, offer = actions(("applicant",)), actions(("lender",))
    names = np.array(SCHEMA.names)
    assert set(names[advice.feasible.movable[0]]) == {"loan", "income", "score", "job", "school"}
    assert set(names[offer.feasible.movable[0]]) == {"term", "loan"}
    assert not allowed(offer, income=41_000) and not allowed(advice, term=42)
    told = offer.actions_of(0, offer.complete(check_record(SCHEMA, OWN | {"loan": 6000, "term": 48})[None])[0, 0])
    assert [(each.lever, each.changes[0].feature) for each in told] == [("lender", "term"), ("lender", "loan")]


def test_numbers_stay_on_grids_and_within_what_is_sensible() -> None:
    found = actions(("lender", "applicant"))
    assert completed(found, term=44) == {"term": 42} and completed(found, term=38) == {}
    assert not allowed(found, term=44) and completed(found, term=12) == {"term": 24}
    assert completed(actions(("lender",), term=7), term=11) == {"term": 12}  # below what is suggested already
    assert completed(found, loan=9500) == {} and not allowed(found, loan=9500, ratio=0.24)
    assert completed(found, loan=0) == {"loan": 5000, "ratio": 0.12}
    assert completed(found, income=90_000) == {"income": 45_000, "ratio": 0.22}
    assert found.feasible.lower[0, 4] == 5000 and found.feasible.upper[0, 5] == 45_000


def test_a_code_is_never_suggested_and_left_only_where_that_is_permitted() -> None:
    found = actions()
    assert completed(found, score=-9) == {} and completed(found, score=-3) == {"score": 0}
    assert completed(found, score=50) == {"score": 50} and allowed(found, score=50) and allowed(found, score=0)
    assert not allowed(found, score=-9) and not allowed(found, score=-3)
    assert completed(actions(score=20), score=-7) == {"score": 0} and not allowed(actions(score=20), score=-7)


def test_time_brings_no_number_to_a_code() -> None:
    compiled = compile_policy(SCHEMA, Policy.from_json(POLICY | {"features": {"late": {"codes": {"3": "unknown"}}}}))
    base = compile_constraints(compiled.schema, Constraints(), check_record(SCHEMA, OWN))
    found = bind(compiled, base, horizon_months=24)[0]
    settled, ok = found.settle(np.repeat(found.origin[:, None], 3, axis=1), np.array([[11, 12, 16]]))
    assert settled[0, :, 2].tolist() == [4, 3, 2] and ok.tolist() == [[True, False, True]]
    assert found.allowed(settled).tolist() == [[True, False, True]]


def test_a_range_asks_for_as_small_a_change_as_it_takes() -> None:
    features = POLICY | {"features": {"income": {"smallest_change": 2000}}}
    compiled = compile_policy(SCHEMA, Policy.from_json(features))
    constraints = Constraints(ranges={"income": (40_500, None)})
    found = bind(compiled, compile_constraints(compiled.schema, constraints, check_record(SCHEMA, OWN)))[0]
    assert completed(found, income=40_600) == {"income": 40_600}
    assert allowed(found, income=40_600) and not allowed(found) and not allowed(found, income=40_400)


def test_categories_move_by_their_transitions_and_order() -> None:
    found = actions()
    assert allowed(found, job="retired") and not allowed(found, job="none")
    assert allowed(found, school="mid") and allowed(found, school="high")
    assert not allowed(actions(school="mid"), school="low")
    assert not allowed(found, job="retired", school="mid")  # at most one
    assert not actions(job="retired").feasible.movable[0, 8]


def test_a_rule_that_is_broken_already_may_not_be_broken_further() -> None:
    lent = ("lender", "applicant")
    assert not allowed(actions(lent), term=30) and allowed(actions(lent), term=42)
    over = actions(lent, term=30)  # good for 9,000, and the loan is 10,000
    assert allowed(over, income=42_000, ratio=0.24) and allowed(over, loan=9000, ratio=0.22)
    assert allowed(over, term=36) and not allowed(over, term=24)
    assert allowed(over, term=24, loan=8000, ratio=0.2) and not allowed(over, term=18, loan=8000, ratio=0.2)


def test_actions_count_what_a_person_has_to_do() -> None:
    found = actions()
    tried = check_record(SCHEMA, OWN | {"income": 44_000, "loan": 8000})[None]
    whole = found.complete(tried, np.array([[8]]))
    assert found.count_actions(whole).tolist() == [[3]] and found.months_of(whole).tolist() == [[8]]
    assert found.actions_of(0, whole[0, 0]) == [
        Action("change", Lever.APPLICANT, (Change("loan", 10_000, 8000), Change("ratio", 0.25, 0.18, True))),
        Action("change", Lever.APPLICANT, (Change("income", 40_000, 44_000),)),
        Action("wait", Lever.TIME, (Change("tenure", 3.0, 3.6, True), Change("late", 6, 4, True)), 8),
    ]
    assert found.allowed(whole, max_changes=3)[0, 0] and not found.allowed(whole, max_changes=2)[0, 0]


def test_broken_rules_are_named_and_repaired() -> None:
    found = actions(("lender", "applicant"), term=72, loan=12_000)
    changes = {"term": 36, "loan": 12_000, "school": "high", "job": "retired"}
    tried = found.complete(check_record(SCHEMA, OWN | changes)[None])
    assert found.broken(tried)[0, 0].tolist() == [False, False, False, False, True, True]
    repaired, ok = repair(found, tried)
    new = from_records(SCHEMA, repaired[0])[0]
    assert ok.all() and (new["term"], new["job"], new["school"]) == (42, "retired", "low")


def test_requests_are_joined_and_their_rows_taken() -> None:
    one, other = actions(months=6), actions(("lender",), months=24, age=60)
    both = join_actions([one, other])
    assert both.horizon.tolist() == [6, 0] and len(both.repeat(2)) == 4
    tried = np.repeat(both.origin[:, None], 3, axis=1)
    tried[:, :, 2], tried[:, 1, 4] = 0, 7000
    np.testing.assert_array_equal(both.complete(tried)[[1]], other.complete(tried[[1]]))
    np.testing.assert_array_equal(both.rows(np.array([0])).complete(tried[[0]]), one.complete(tried[[0]]))
    again = bind(compile_policy(SCHEMA, Policy.from_json({"format": 1})), one.limits)[0]
    with pytest.raises(ConstraintError, match="different policies cannot be searched together"):
        join_actions([one, again])


@pytest.mark.parametrize(
    ("constraints", "levers", "months", "sentence"),
    [
        ({"income": (50_000, None)}, ("lender",), 12, "Row 1: 'income' is 40000 and only applicant can move it"),
        ({"income": (50_000, None)}, ("applicant",), 12, "'income' is 40000 and the policy leaves it nothing within"),
        ({"late": (None, 2)}, ("time",), 6, "'late' is 6 and 6 months do not bring it there"),
        ({"age": (40, None)}, ("time",), 120, None),
    ],
)
def test_what_a_request_demands_and_the_policy_forbids_is_one_sentence(
    constraints: dict[str, Any], levers: tuple[str, ...], months: int, sentence: str | None
) -> None:
    compiled = compile_policy(SCHEMA, Policy.from_json(POLICY))
    base = compile_constraints(compiled.schema, Constraints(ranges=constraints), check_record(SCHEMA, OWN))
    errors = bind(compiled, base, [Lever(lever) for lever in levers], months)[1]
    assert (errors == [None]) if sentence is None else sentence in str(errors[0])


def test_horizons_and_levers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConstraintError, match="The horizon is 121 months; give 0 to 120"):
        actions(months=121)
    compiled = compile_policy(SCHEMA, Policy.from_json(POLICY))
    base = compile_constraints(compiled.schema, Constraints(), check_record(SCHEMA, OWN))
    with pytest.raises(ConstraintError, match="The levers are nobody; choose from applicant, lender, time"):
        bind(compiled, base, [Lever.NOBODY])


def test_a_request_holds_what_time_and_formulas_move_as_well() -> None:
    compiled = compile_policy(SCHEMA, Policy.from_json(POLICY))
    base = compile_constraints(compiled.schema, Constraints(frozenset({"age", "ratio"})), check_record(SCHEMA, OWN))
    found = bind(compiled, base, horizon_months=24)[0]
    assert found.horizon.tolist() == [11]
    assert completed(found, months=24) == {"tenure": 3.9, "late": 4}
    assert not allowed(found, loan=5000, ratio=0.12)


def test_rows_that_the_policy_calls_impossible_are_counted() -> None:
    changes: list[dict[str, Any]] = [{}, {"term": 37}, {"loan": 20_000}]
    records = np.concatenate([check_record(SCHEMA, OWN | change) for change in changes])
    count, parts = impossible_rows(compile_policy(SCHEMA, Policy.from_json(POLICY)), records)
    assert count == 2
    assert [str(part) for part in parts] == [
        "1 of 3 rows break the grid of 'term', among them row 2.",
        "1 of 3 rows break rule 5 (room), among them row 3.",
    ]


def test_the_policy_of_the_demo_fits_its_data() -> None:
    data = loans(2000)
    schema = infer_schema(data.frame, data.label, data.overrides)
    document = json.loads((ROOT / "benchmarks" / "policies" / "loans.json").read_text(encoding="utf-8"))
    compiled = compile_policy(schema, Policy.from_json(document))
    assert impossible_rows(compiled, to_records(schema, data.frame.drop(columns=data.label))) == (0, [])


def test_the_checker_knows_nothing_of_the_engine() -> None:
    tree = ast.parse(Path(str(checker.__file__)).read_text(encoding="utf-8"))
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert named == {"math", "re", "collections.abc", "typing"}
