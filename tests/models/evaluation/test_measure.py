"""A version beside the oracle, on real members, with every question counted."""

from dataclasses import dataclass

import numpy as np
import pytest

from models.arrays import Records
from models.config import MeasureConfig, SearchConfig
from models.datasets.dataset import Splits, split_dataset
from models.datasets.loans import loans
from models.ensemble.local import LocalEnsemble, train_local_ensemble
from models.ensemble.meter import QueryMeter
from models.evaluation.evaluation import Cases, answered_records
from models.evaluation.measure import beside_oracle, bounded_oracle, measure
from models.evaluation.oracle import oracle
from models.model import RecourseModel
from models.search.search import explain
from models.space.constraints import Constraints, compile_constraints, violations
from models.training.train import train
from tests.models.tiny import TINY

COUNT = 6
CONFIG = MeasureConfig()


@dataclass(frozen=True, eq=False)
class Lab:
    """A small splits with its members and its model."""

    splits: Splits
    members: LocalEnsemble
    model: RecourseModel
    cases: Cases
    unverified: Records


@pytest.fixture(scope="module")
def lab() -> Lab:
    splits = split_dataset(loans(300, seed=3), 0)
    training = splits.training
    members = train_local_ensemble(
        splits.encoder, training.records, training.labels, "quick", ("knn", "forest", "mlp"), 0
    )
    model = train(splits, members, TINY, seed=0, query_limit=40)
    refused = model.classes.index("refused")
    records: Records = splits.test.records[splits.test.labels == refused][:COUNT]
    target = np.full(COUNT, model.classes.index("approved"))
    found = explain(model, records, target, None, SearchConfig())
    return Lab(splits, members, model, Cases(records, target), answered_records(model.encoder, records, found))


def test_the_three_ways_are_measured_on_the_same_records(lab: Lab) -> None:
    meter = QueryMeter(lab.members, 10_000)
    found = beside_oracle(lab.model, lab.splits.training, meter, lab.cases, lab.unverified, CONFIG, seed=0)
    assert found["records"] == COUNT
    assert found["queries"] == meter.spent <= COUNT * CONFIG.queries_each
    for way in ("unverified", "verified", "oracle"):
        figures = found[way]
        assert isinstance(figures, dict) and set(figures) == {"validity", "unanimity", "cost"}
        assert 0 <= figures["unanimity"] <= figures["validity"] <= 1
    ours, limit = found["verified"], found["oracle"]
    assert isinstance(ours, dict) and isinstance(limit, dict)
    assert limit["unanimity"] > 0 and limit["cost"] > 0
    assert found["cost_ratio"] == pytest.approx(ours["cost"] / limit["cost"])


def test_the_bounded_oracle_keeps_its_limit_the_constraints_and_most_of_the_quality(lab: Lab) -> None:
    cases, encoder, training = lab.cases, lab.splits.encoder, lab.splits.training
    allowed = compile_constraints(encoder.schema, Constraints(), cases.records)
    bounded = bounded_oracle(CONFIG, COUNT)
    few = oracle(lab.members, encoder, training.records, allowed, cases.target, bounded, training.labels)
    free = oracle(lab.members, encoder, training.records, allowed, cases.target, None, training.labels)
    assert few.queries <= COUNT * CONFIG.oracle_queries
    assert not violations(encoder.schema, cases.records, few.records, allowed).any()
    assert few.agreement.mean() >= free.agreement.mean() - 0.05


@pytest.mark.parametrize("limit", [0, 5, COUNT * (1 + CONFIG.verified_queries)])
def test_too_few_queries_are_said_and_never_passed(lab: Lab, limit: int) -> None:
    meter = QueryMeter(lab.members, limit)
    found = beside_oracle(lab.model, lab.splits.training, meter, lab.cases, lab.unverified, CONFIG, seed=0)
    assert meter.spent <= limit
    assert "skipped" in found or found["queries"] == meter.spent
    if limit == 0:
        assert "skipped" in found


def test_all_of_it_keeps_to_its_queries(lab: Lab) -> None:
    config = MeasureConfig(records=8, checks=3, oracle_records=2)
    meter = QueryMeter(lab.members, config.queries)
    found = measure(lab.model, lab.splits, meter, config, seed=0)
    expected, verified, beside = found["expected"], found["verified"], found["beside_oracle"]
    assert isinstance(expected, dict) and isinstance(verified, dict) and isinstance(beside, dict)
    assert (expected["records"], verified["records"], beside["records"]) == (8, 3, 2)
    assert meter.spent <= config.queries == 3 + 2 * config.queries_each


def test_without_a_query_the_surrogate_alone_speaks(lab: Lab) -> None:
    found = measure(lab.model, lab.splits, QueryMeter(lab.members, 0), MeasureConfig(oracle_records=0), seed=0)
    assert found["verified"] is None and set(found) == {"expected", "verified"}
