"""How a job's queries are shared out: learning comes first, the comparison with the oracle last."""

from uuid import uuid4

import pytest

from app.train.request import CHECK_SHARE, LABELLED_RECORDS, LEAST_LABELLED, ORACLE_RECORDS, TrainRequest, make_plan
from models.config import MeasureConfig, fast
from tests.servers.worker import changed

REQUEST = TrainRequest(model="loans", dataset_id=uuid4())
LEARN = fast().queries
FULL = MeasureConfig(oracle_records=ORACLE_RECORDS)


def test_without_a_limit_the_oracle_s_records_come_on_top() -> None:
    plan = make_plan(REQUEST, "cpu")
    assert (plan.queries, plan.measure, plan.skipped) == (LEARN, FULL, None)
    assert plan.total == LEARN + FULL.checks + ORACLE_RECORDS * FULL.queries_each
    assert make_plan(changed(REQUEST, oracle_records=0), "cpu").total == LEARN + FULL.checks


def test_a_lender_s_own_models_are_not_asked_for_a_comparison_that_nobody_ordered() -> None:
    lender = changed(REQUEST, ensemble="scorecards")
    assert make_plan(lender, "cpu").total == LEARN + FULL.checks + LABELLED_RECORDS
    assert make_plan(changed(lender, oracle_records=2), "cpu").measure.oracle_records == 2


@pytest.mark.parametrize("records", [0, 1, 10])
@pytest.mark.parametrize("queries", [0, 9, 480, 1000, 1639, 1640, 20_000])
def test_a_limit_is_kept_and_learning_has_no_less_than_the_preset_wants(queries: int, records: int) -> None:
    plan = make_plan(changed(REQUEST, queries=queries, oracle_records=records), "cpu")
    assert plan.total == queries
    assert plan.measure.oracle_records in (0, records)
    if plan.measure.oracle_records:
        assert plan.queries >= LEARN
    assert (plan.skipped is None) == (plan.measure.oracle_records == records)


@pytest.mark.parametrize("records", [0, 10])
@pytest.mark.parametrize("queries", [0, 12, 199, 200, 599, 600, 1699, 1700, 20_000])
def test_a_lender_s_members_are_compared_with_labels_where_a_tenth_of_the_limit_pays_for_it(
    queries: int, records: int
) -> None:
    plan = make_plan(changed(REQUEST, ensemble="scorecards", queries=queries, oracle_records=records), "cpu")
    assert plan.total == queries
    asked = plan.measure.labelled
    assert asked == 0 or LEAST_LABELLED <= asked <= min(LABELLED_RECORDS, queries // CHECK_SHARE)
    assert (plan.unlabelled is None) == (asked > 0) == (queries >= 200)


def test_what_is_skipped_says_what_it_would_take() -> None:
    plan = make_plan(changed(REQUEST, queries=1639), "cpu")
    assert plan.skipped is not None and "1110 of the job's 1639 queries; allow it 1640" in plan.skipped
    assert make_plan(changed(REQUEST, queries=1640), "cpu").measure.oracle_records == 10
