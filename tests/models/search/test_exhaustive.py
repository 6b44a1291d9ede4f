"""Everything that a record may become, where that is little: counted by hand, and told as a proof."""

from dataclasses import replace

import numpy as np
import pytest

from models.config import SearchConfig
from models.data.policy import Policy
from models.data.schema import Feature, FeatureKind, Schema
from models.model import RecourseModel
from models.search.answers import Certificate, Status
from models.search.exhaustive import reachable
from models.search.search import explain, target_codes
from models.space.constraints import Constraints
from models.space.encoding import Encoder
from tests.fakes.plane import Boundary, linear_model

HOME = np.array([[0.0, 1.0]])
SCHEMA = Schema(
    (
        Feature("x", FeatureKind.INTEGER, lower=0.0, upper=4.0, step=1.0),
        Feature("y", FeatureKind.INTEGER, lower=0.0, upper=2.0, step=1.0),
    ),
    "label",
    ("no", "yes"),
)


@pytest.fixture(scope="module")
def model() -> RecourseModel:
    """It takes x + y >= 5: expected agreement is one half there."""
    encoder = Encoder(SCHEMA, np.zeros(2), np.zeros(2), np.ones(2))
    return linear_model(encoder, [2.0, 2.0], bias=-10.0)


def asked(model: RecourseModel, constraints: Constraints) -> np.ndarray | None:
    return reachable(SCHEMA, model.prepared(constraints, HOME).feasible, 1000)


@pytest.mark.parametrize(("most", "count"), [(1, 4 + 2), (2, 5 * 3 - 1), (None, 5 * 3 - 1)])
def test_all_other_records_are_listed(model: RecourseModel, most: int | None, count: int) -> None:
    records = asked(model, Constraints(max_changes=most))
    assert records is not None and len(records) == count == len({tuple(record) for record in records.tolist()})
    assert HOME[0].tolist() not in records.tolist()


def test_more_than_the_limit_is_not_listed(model: RecourseModel) -> None:
    feasible = model.prepared(Constraints(), HOME).feasible
    assert reachable(SCHEMA, feasible, 13) is None and reachable(SCHEMA, feasible, 14) is not None


def test_what_the_policy_forbids_is_not_listed(model: RecourseModel) -> None:
    rules = [{"rule": "inequality", "require": "x <= y"}]
    ruled = replace(model, policy=Policy.from_json({"format": 1, "features": {}, "rules": rules}))
    records = asked(ruled, Constraints())
    assert records is not None and sorted(map(tuple, records.tolist())) == [(0, 0), (0, 2), (1, 1), (1, 2), (2, 2)]


def test_a_wait_is_one_change_and_listed_month_by_month(model: RecourseModel) -> None:
    rules = [{"rule": "time", "feature": "x", "adds": 1, "months": 1}]
    ruled = replace(model, policy=Policy.from_json({"format": 1, "features": {}, "rules": rules}))
    records = asked(ruled, Constraints(max_changes=1, months=3))
    assert records is not None
    assert sorted(map(tuple, records.tolist())) == [(0, 0), (0, 2), (1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize(
    ("constraints", "certificate", "points"),
    [
        (Constraints(ranges={"x": (0.0, 2.0)}), Certificate.EXCLUDED_BY_SURROGATE, 8),
        (Constraints(immutable=frozenset({"x", "y"})), Certificate.PROVEN, 0),
    ],
)
def test_no_way_is_told_with_its_certificate(
    model: RecourseModel, constraints: Constraints, certificate: Certificate, points: int
) -> None:
    answer = explain(model, HOME, target_codes(model, "yes", 1), constraints, SearchConfig(candidates=4))[0]
    assert answer.status is Status.INFEASIBLE and answer.diagnosis is not None
    assert (answer.diagnosis.certificate, answer.diagnosis.points) == (certificate, points)


def test_a_way_that_the_models_know_and_the_surrogate_does_not_is_found_with_queries(model: RecourseModel) -> None:
    """The models accept (2, 0) alone, which the surrogate thinks hopeless."""
    boxes = Boundary(lambda records: (records[:, 0] == 2) & (records[:, 1] == 0))
    constraints, yes = Constraints(ranges={"x": (0.0, 2.0)}), target_codes(model, "yes", 1)
    found = explain(model, HOME, yes, constraints, SearchConfig(candidates=4, max_queries=20), boxes)[0]
    assert found.status is Status.ROBUST and found.counterfactuals[0].record == {"x": 2, "y": 0}
    nobody = Boundary(lambda records: records[:, 0] > 99)
    none = explain(model, HOME, yes, constraints, SearchConfig(candidates=4, max_queries=20), nobody)[0]
    assert none.diagnosis is not None and none.diagnosis.certificate is Certificate.PROVEN
    assert none.queries == 8 + 1, "the eight, and the record as it is"


def test_too_much_to_list_is_not_found(model: RecourseModel) -> None:
    search = replace(model.config.search, listed=3)
    few = replace(model, config=replace(model.config, search=search))
    constraints = Constraints(ranges={"x": (0.0, 2.0)})
    answer = explain(few, HOME, target_codes(few, "yes", 1), constraints, SearchConfig(candidates=4))[0]
    assert answer.diagnosis is not None
    assert (answer.diagnosis.certificate, answer.diagnosis.points) == (Certificate.NOT_FOUND, None)
