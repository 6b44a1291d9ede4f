"""Searches under random policies and requests: a checker that shares no code with the engine finds nothing broken."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.actions.checker import broken, count_actions
from benchmarks.actions.random_policies import random_policy, random_request
from models.config import SearchConfig
from models.data.policy import Lever, Policy
from models.data.policy_checks import check_policy
from models.data.records import from_records
from models.errors import SchemaError
from models.model import RecourseModel
from models.search.answers import Status
from models.search.search import explain
from models.space.constraints import Constraints
from tests.models.tiny import Scorecards, Task, other_class

EAGER = SearchConfig(candidates=6, cost_weight=0.001, min_expected_agreement=0.0)


@pytest.mark.parametrize("seed", range(40))
def test_no_answer_breaks_a_rule(tiny_model: RecourseModel, loans_task: Task, seed: int) -> None:
    random, schema = np.random.default_rng(seed), tiny_model.encoder.schema
    document, request = random_policy(schema, random), random_request(random)
    request["max_changes"] = [None, 1, 2, 4][seed % 4]
    policy = Policy.from_json(document)
    try:
        check_policy(schema, policy)
    except SchemaError:
        pytest.skip("the policy does not fit")
    model, config = replace(tiny_model, policy=policy), replace(EAGER, k=1 + seed % 2, max_queries=3 * (seed % 2))
    records, target = loans_task.test.records[:10], other_class(loans_task.test.labels[:10], 2)
    constraints = Constraints(
        max_changes=request["max_changes"],
        levers=tuple(map(Lever, request["levers"])),
        months=request["horizon_months"],
    )
    found = explain(model, records, target, constraints, config, Scorecards(loans_task.encoder))
    for record, answer in zip(from_records(schema, records), found, strict=True):
        for way in answer.counterfactuals:
            faults = broken(document, schema.to_json(), record, way.record, request)
            assert not faults and answer.status is not Status.ALREADY_TARGET, (faults, document)
            assert len(way.actions) == count_actions(document, record, way.record)
            assert {name for action in way.actions for name in action.features} == {
                change.feature for change in way.changes
            }
