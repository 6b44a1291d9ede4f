"""The metered proxy: charged before it asks, free for what was bought, honest about who did not answer."""

import gc
from collections.abc import Callable
from datetime import timedelta
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.concurrency import Deadline
from app.db.engine import Database
from app.ensembles.blackbox import LocalBlackBox
from app.ensembles.bought import Allowance, AnswerCache, AnswerOwner, record_keys
from app.ensembles.metered import BlackBox, MeteredEnsemble, QueryPolicy
from app.errors import DeadlineError
from app.ledger.audit import check_ledger
from app.ledger.ledger import Ledger
from models.ensemble.protocol import Ensemble, charges_of
from models.errors import ConfigError, EnsembleError, QueryLimitError
from tests.app.conftest import Customer
from tests.app.ledger import CHAIN_KEY
from tests.fakes.ensembles import CLASSES, MEMBERS, CountingEnsemble, FlakyBox, formula

LIMIT = 100
PROMPT = QueryPolicy(retry_seconds=0.0)
Meter: TypeAlias = Callable[..., MeteredEnsemble]


@pytest.fixture
def meter(database: Database, ledger: Ledger, customer: Customer) -> Meter:
    """Makes a metered ensemble of a box, a maximum, a policy, a deadline, and a version."""
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, LIMIT)

    def make(
        box: BlackBox,
        maximum: int = 50,
        policy: QueryPolicy = PROMPT,
        deadline: Deadline | None = None,
        version: str = "1",
    ) -> MeteredEnsemble:
        owner = AnswerOwner(customer.tenant_id, customer.ensemble_id, version)
        cache = AnswerCache(database, owner, len(MEMBERS), len(CLASSES), timedelta(seconds=1))
        allowance = Allowance(ledger, customer.tenant_id, customer.ensemble_id, maximum)
        return MeteredEnsemble(box, allowance, cache, policy, deadline)

    return make


def some_records(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 4))


def used(ledger: Ledger, customer: Customer) -> tuple[int, int]:
    balance = ledger.balance(customer.tenant_id, customer.ensemble_id)
    return balance.used, balance.reserved


def test_it_is_an_ensemble_and_charges_each_record_once(
    meter: Meter, ledger: Ledger, customer: Customer, database: Database
) -> None:
    lender = CountingEnsemble()
    records = some_records(7)
    records[2, 1] = np.nan
    with meter(LocalBlackBox(lender)) as ensemble:
        as_protocol: Ensemble = ensemble
        first = as_protocol.predict_proba(np.vstack([records, records[:3]]))
        second = ensemble.ask(records[::-1])
    np.testing.assert_allclose(first, formula(np.vstack([records, records[:3]])), rtol=1e-12)
    np.testing.assert_array_equal(second.probabilities, first[:, :7][:, ::-1])
    assert (second.charged, second.reused) == (0, 7)
    assert (ensemble.charged, ensemble.reused, lender.records_seen) == (7, 10, 7)
    assert used(ledger, customer) == (7, 0), "the rest of the reservation is released"
    assert check_ledger(database, CHAIN_KEY) == []


def test_answers_outlive_the_request_but_not_the_version(meter: Meter, ledger: Ledger, customer: Customer) -> None:
    lender = CountingEnsemble()
    records = some_records(5)
    for version, seen in (("1", 5), ("1", 5), ("2", 10)):
        with meter(LocalBlackBox(lender), version=version) as ensemble:
            np.testing.assert_allclose(ensemble.predict_proba(records), formula(records), rtol=1e-12)
        assert lender.records_seen == seen
    assert used(ledger, customer) == (10, 0)


def test_what_the_cache_answers_needs_no_budget(meter: Meter, ledger: Ledger, customer: Customer) -> None:
    records = some_records(5)
    with meter(LocalBlackBox(CountingEnsemble())) as ensemble:
        ensemble.predict_proba(records)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 0)
    with meter(LocalBlackBox(CountingEnsemble())) as ensemble:
        ensemble.predict_proba(records)
        with pytest.raises(QueryLimitError, match="50 queries were asked for, but 0 of 0 remain"):
            ensemble.predict_proba(some_records(1, seed=1))


def test_the_maximum_is_hard(meter: Meter) -> None:
    lender = CountingEnsemble()
    with meter(LocalBlackBox(lender), maximum=4) as ensemble:
        ensemble.predict_proba(some_records(3))
        with pytest.raises(QueryLimitError, match="2 queries were asked for, but 1 of 4 reserved remain"):
            ensemble.predict_proba(some_records(2, seed=1))
    assert lender.records_seen == 3


def test_large_requests_go_in_chunks(meter: Meter) -> None:
    lender = CountingEnsemble()
    with meter(LocalBlackBox(lender), policy=QueryPolicy(chunk=4)) as ensemble:
        ensemble.predict_proba(some_records(10))
    assert lender.calls == [4, 4, 2]


def test_a_call_that_fails_knows_what_it_cost(meter: Meter) -> None:
    with meter(LocalBlackBox(CountingEnsemble()), maximum=6, policy=QueryPolicy(chunk=4)) as ensemble:
        with pytest.raises(QueryLimitError):
            ensemble.predict_proba(some_records(10))
        assert charges_of(ensemble, 10).tolist() == [1] * 4 + [0] * 6
        assert ensemble.charged == 4


def test_an_empty_request_costs_nothing(meter: Meter, ledger: Ledger, customer: Customer) -> None:
    with meter(LocalBlackBox(CountingEnsemble())) as ensemble:
        assert ensemble.predict_proba(np.empty((0, 4))).shape == (3, 0, 2)
    assert used(ledger, customer) == (0, 0)


def test_a_retry_asks_only_who_failed_and_is_charged(meter: Meter, ledger: Ledger, customer: Customer) -> None:
    box = FlakyBox([{1, 2}])
    with meter(box) as ensemble:
        answer = ensemble.ask(some_records(5))
    assert box.asked == [(0, 1, 2), (1, 2)]
    assert (answer.charged, answer.missing) == (10, ())
    assert ensemble.charges.tolist() == [2] * 5
    np.testing.assert_allclose(answer.probabilities, formula(some_records(5)), rtol=1e-12)
    assert used(ledger, customer) == (10, 0)


def test_it_knows_what_each_record_cost(meter: Meter) -> None:
    records = some_records(4)
    with meter(LocalBlackBox(CountingEnsemble())) as ensemble:
        ensemble.ask(records[[0, 1, 0]])
        assert ensemble.charges.tolist() == [1, 1, 0]
        ensemble.ask(records[[1, 2, 0, 3]])
        assert charges_of(ensemble, 4).tolist() == [0, 1, 0, 1]
        ensemble.ask(records[:0])
        assert ensemble.charges.tolist() == []


def test_a_lasting_failure_is_not_tried_again(meter: Meter) -> None:
    box = FlakyBox([{1}], passing=False)
    with meter(box) as ensemble:
        answer = ensemble.ask(some_records(5))
    assert (len(box.asked), answer.charged) == (1, 5)


def test_a_partial_answer_names_who_is_missing(meter: Meter) -> None:
    box = FlakyBox([{1}, {1}])
    with meter(box) as ensemble:
        answer = ensemble.ask(some_records(5))
    assert [(vote.member, vote.reason) for vote in answer.missing] == [("boosting", "status 503")]
    assert ensemble.missing == answer.missing
    assert np.isnan(answer.probabilities[1]).all()
    assert not np.isnan(answer.probabilities[[0, 2]]).any()


def test_only_the_missing_votes_are_bought_later(meter: Meter) -> None:
    box = FlakyBox([{1}])
    with meter(box) as ensemble:
        ensemble.ask(some_records(5))
        assert ensemble.ask(some_records(5)).charged == 0, "not in the same request: the member would fail again"
    with meter(box) as ensemble:
        answer = ensemble.ask(some_records(7))
    assert box.asked == [(0, 1, 2), (1,), (0, 1, 2)]
    assert answer.charged == 7
    np.testing.assert_allclose(answer.probabilities, formula(some_records(7)), rtol=1e-12)


def test_too_few_members_are_an_error_that_names_them(meter: Meter, ledger: Ledger, customer: Customer) -> None:
    box = FlakyBox([{0, 1}, {0, 1}])
    with (
        pytest.raises(EnsembleError, match=r"only 1 of 3 members .* 2 are required \(forest: status 503; boosting"),
        meter(box) as ensemble,
    ):
        ensemble.predict_proba(some_records(5))
    assert used(ledger, customer) == (10, 0), "charged all the same, and what was bought is kept"
    with meter(FlakyBox([]), policy=QueryPolicy(required=3)) as ensemble:
        assert ensemble.ask(some_records(5)).missing == ()


def test_who_rests_is_neither_asked_nor_charged(meter: Meter, ledger: Ledger, customer: Customer) -> None:
    box = FlakyBox([])
    box.resting = {0, 1}
    with pytest.raises(EnsembleError, match="rests now"), meter(box) as ensemble:
        ensemble.predict_proba(some_records(5))
    assert (box.asked, used(ledger, customer)) == ([], (0, 0))
    box.resting = {0}
    with meter(box) as ensemble:
        assert [vote.member for vote in ensemble.ask(some_records(5)).missing] == ["forest"]
        assert ensemble.ask(some_records(5)).charged == 0, "nobody new can be reached"
    assert box.asked == [(1, 2)]


def test_a_member_that_fails_does_not_use_up_the_request(meter: Meter, ledger: Ledger, customer: Customer) -> None:
    """Ten rounds of three records with 30 queries: each round is answered by the members that are left."""
    box = FlakyBox([{0}] * 100)
    with meter(box, maximum=30) as ensemble:
        for seed in range(10):
            answer = ensemble.ask(some_records(3, seed))
            assert [vote.member for vote in answer.missing] == ["forest"]
            assert not np.isnan(answer.probabilities[1:]).any()
    assert (len(box.asked), used(ledger, customer)) == (10, (30, 0))


def test_what_the_request_cannot_need_any_more_pays_for_another_try(meter: Meter) -> None:
    with meter(FlakyBox([])) as ensemble:
        ensemble.ask(some_records(4))
    box = FlakyBox([{1}])
    with meter(box, maximum=7) as ensemble:
        ensemble.ask(some_records(4))
        answer = ensemble.ask(some_records(3, seed=1))
    assert (box.asked, answer.charged, answer.missing) == ([(0, 1, 2), (1,)], 6, ())


def test_a_request_that_retries_have_used_up_names_who_failed(meter: Meter, ledger: Ledger, customer: Customer) -> None:
    """Too few answered at first, so the further tries were needed; it is not the budget that is wrong."""
    box = FlakyBox([{0, 1}, {0}] * 10)
    with (
        pytest.raises(EnsembleError, match=r"forest failed, and asking again took 6 of the request's 12 queries"),
        meter(box, maximum=12) as ensemble,
    ):
        for seed in range(4):
            ensemble.ask(some_records(3, seed))
    assert used(ledger, customer) == (12, 0)


def test_the_deadline_is_kept_between_calls(meter: Meter) -> None:
    lender = CountingEnsemble()
    with (
        pytest.raises(DeadlineError, match="3 records"),
        meter(LocalBlackBox(lender), deadline=Deadline.after(0.0)) as late,
    ):
        late.predict_proba(some_records(3))
    assert lender.calls == []


def test_a_silent_local_member_is_missing(meter: Meter) -> None:
    lender = CountingEnsemble()
    lender.silent = {2}
    with meter(LocalBlackBox(lender)) as ensemble:
        assert [vote.member for vote in ensemble.ask(some_records(2)).missing] == ["network"]


@pytest.mark.parametrize("nonsense", [[0.7, 0.7], [-0.5, 1.5], [np.inf, 0.0]])
def test_what_are_not_probabilities_is_no_vote(meter: Meter, nonsense: list[float]) -> None:
    class Nonsense(CountingEnsemble):
        def predict_proba(self, records: np.ndarray) -> np.ndarray:
            probabilities = super().predict_proba(records)
            probabilities[0] = nonsense
            return probabilities

    with meter(LocalBlackBox(Nonsense())) as ensemble:
        answer = ensemble.ask(some_records(2))
    assert [vote.reason for vote in answer.missing] == ["answered with what are not probabilities"]
    assert np.isnan(answer.probabilities[0]).all()


def test_no_attribute_leads_around_the_meter(meter: Meter) -> None:
    box = LocalBlackBox(CountingEnsemble())
    ensemble = meter(box)
    assert not any(value is box for value in vars(ensemble).values())
    assert ensemble not in gc.get_referrers(box)


def test_a_changed_ensemble_needs_a_new_version(meter: Meter, database: Database, customer: Customer) -> None:
    with meter(LocalBlackBox(CountingEnsemble())) as ensemble:
        ensemble.predict_proba(some_records(1))
    owner = AnswerOwner(customer.tenant_id, customer.ensemble_id, "1")
    cache = AnswerCache(database, owner, 4, 2, timedelta(seconds=1))
    with pytest.raises(EnsembleError, match="give a changed ensemble a new version"):
        cache.find(record_keys(some_records(1)))


def test_policies_that_make_no_sense(meter: Meter) -> None:
    with pytest.raises(ConfigError):
        QueryPolicy(attempts=0)
    with pytest.raises(ConfigError, match="4 members are required, but the ensemble has only 3"):
        meter(FlakyBox([]), policy=QueryPolicy(required=4))


@given(st.lists(st.floats(allow_nan=True), min_size=1, max_size=5))
def test_equal_records_have_equal_keys(values: list[float]) -> None:
    row = np.array([values])
    (key,) = record_keys(row)
    assert record_keys(np.where(row == 0.0, -row, row)) == [key]
    assert record_keys(np.where(np.isnan(row), -np.nan, row).copy()) == [key]
    changed = row.copy()
    changed[0, 0] = 1.0 if np.isnan(row[0, 0]) else np.nan
    assert record_keys(changed) != [key]
