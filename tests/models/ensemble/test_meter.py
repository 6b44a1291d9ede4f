"""The query meter: never one too many, never twice for the same record."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.arrays import Records
from models.ensemble.meter import QueryMeter
from models.ensemble.protocol import charges_of
from models.errors import ConfigError, EnsembleError, QueryLimitError


class Lender:
    """A lender's two models; it keeps count of the records that reach it."""

    member_names = ("mild", "strict")
    classes = ("no", "yes")

    def __init__(self) -> None:
        self.seen: list[Records] = []
        self.fails = False
        self.seconds = 0.0

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        self.seen.append(records)
        time.sleep(self.seconds)
        if self.fails:
            raise ConnectionError("the line is dead")
        yes = 1.0 / (1.0 + np.exp(-np.nan_to_num(records).sum(axis=1)))
        return np.stack([np.stack([1.0 - p, p], axis=1) for p in (yes, yes / 2.0)])

    @property
    def count(self) -> int:
        return sum(len(records) for records in self.seen)


def rows(*values: float) -> Records:
    return np.array([[value, 1.0] for value in values])


def test_a_query_is_one_record() -> None:
    lender = Lender()
    meter = QueryMeter(lender, limit=10)
    answer = meter.predict_proba(rows(1.0, 2.0, 3.0))
    np.testing.assert_array_equal(answer, Lender().predict_proba(rows(1.0, 2.0, 3.0)))
    assert (meter.spent, meter.remaining, meter.limit, lender.count) == (3, 7, 10, 3)
    assert (meter.member_names, meter.classes) == (lender.member_names, lender.classes)


def test_a_record_is_paid_for_once_within_a_call_and_between_calls() -> None:
    lender = Lender()
    meter = QueryMeter(lender, limit=3)
    first = meter.predict_proba(rows(1.0, 2.0, 1.0, 1.0))
    again = meter.predict_proba(rows(2.0, 1.0, 5.0))
    assert (meter.spent, lender.count) == (3, 3)
    np.testing.assert_array_equal(first[:, 0], first[:, 2])
    np.testing.assert_array_equal(again[:, :2], first[:, [1, 0]])
    assert meter.predict_proba(rows(5.0)).shape == (2, 1, 2)


def test_it_knows_what_each_record_cost() -> None:
    meter = QueryMeter(Lender(), limit=9)
    meter.predict_proba(rows(1.0, 2.0, 1.0))
    assert (meter.charges.sum(), meter.charges[1]) == (2, 1)
    meter.predict_proba(rows(2.0, 3.0, 1.0, 4.0))
    assert charges_of(meter, 4).tolist() == [0, 1, 0, 1]
    meter.predict_proba(rows(2.0))
    assert charges_of(meter, 1).tolist() == [0]
    assert charges_of(Lender(), 2).tolist() == [1, 1], "who remembers nothing is asked each time"


def test_nan_is_nan_and_minus_zero_is_zero() -> None:
    lender = Lender()
    meter = QueryMeter(lender, limit=2)
    other_nan = np.frombuffer(np.uint64(0x7FF8_0000_0000_0001).tobytes(), dtype=np.float64)[0]
    meter.predict_proba(rows(np.nan, other_nan, -np.nan, 0.0, -0.0))
    assert lender.count == 2


def test_a_call_past_the_limit_is_refused_before_it_is_made() -> None:
    lender = Lender()
    meter = QueryMeter(lender, limit=4)
    meter.predict_proba(rows(1.0, 2.0, 3.0))
    with pytest.raises(QueryLimitError, match="2 more queries were asked for, but 3 of 4 are spent and 1 remain"):
        meter.predict_proba(rows(1.0, 8.0, 9.0))
    assert (meter.spent, lender.count) == (3, 3)
    meter.predict_proba(rows(3.0, 8.0))
    assert (meter.remaining, lender.count) == (0, 4)
    meter.predict_proba(rows(8.0))


def test_a_call_that_fails_counts_and_is_not_remembered() -> None:
    lender = Lender()
    meter = QueryMeter(lender, limit=3)
    lender.fails = True
    with pytest.raises(ConnectionError):
        meter.predict_proba(rows(1.0, 2.0))
    lender.fails = False
    assert meter.spent == 2
    meter.predict_proba(rows(1.0))
    assert (meter.spent, lender.count) == (3, 3)
    assert len(meter.answers()[0]) == 1


def test_everything_bought_is_kept() -> None:
    lender = Lender()
    meter = QueryMeter(lender, limit=9)
    assert meter.answers()[1].shape == (2, 0, 2)
    meter.predict_proba(rows(1.0, 2.0))
    meter.predict_proba(rows(2.0, np.nan))
    records, probabilities = meter.answers()
    np.testing.assert_array_equal(records, rows(1.0, 2.0, np.nan))
    np.testing.assert_array_equal(probabilities, Lender().predict_proba(records))


def test_no_record_costs_nothing() -> None:
    lender = Lender()
    assert QueryMeter(lender, limit=0).predict_proba(np.empty((0, 2))).shape == (2, 0, 2)
    assert lender.seen == []


def test_no_attribute_leads_to_the_ensemble() -> None:
    lender = Lender()
    meter = QueryMeter(lender, limit=1)
    assert all(getattr(meter, name) is not lender for name in dir(meter))


def test_an_answer_of_the_wrong_shape_is_an_error() -> None:
    class Short(Lender):
        def predict_proba(self, records: Records) -> NDArray[np.float64]:
            return super().predict_proba(records)[:1]

    with pytest.raises(EnsembleError, match=r"shape \(1, 2, 2\); its protocol says \(2, 2, 2\)"):
        QueryMeter(Short(), limit=5).predict_proba(rows(1.0, 2.0))
    with pytest.raises(EnsembleError, match=r"not an array of shape \(3,\)"):
        QueryMeter(Lender(), limit=5).predict_proba(np.zeros(3))


def test_a_negative_limit_makes_no_sense() -> None:
    with pytest.raises(ConfigError, match="-1 is negative"):
        QueryMeter(Lender(), limit=-1)


def test_threads_cannot_pass_the_limit_together() -> None:
    lender = Lender()
    lender.seconds = 0.002
    meter = QueryMeter(lender, limit=50)

    def ask(start: int) -> bool:
        try:
            meter.predict_proba(rows(*range(start, start + 4)))
        except QueryLimitError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(ask, [4 * (call // 8) for call in range(240)]))
    assert lender.count == meter.spent == 48
    assert sum(outcomes) == 12 * 8


@given(st.lists(st.lists(st.integers(0, 12), max_size=6), max_size=12), st.integers(0, 10))
def test_what_reaches_the_ensemble_is_what_was_spent_and_never_passes_the_limit(
    calls: list[list[int]], limit: int
) -> None:
    lender = Lender()
    meter = QueryMeter(lender, limit)
    bought: set[int] = set()
    for call in calls:
        new = set(call) - bought
        if len(bought) + len(new) > limit and new:
            with pytest.raises(QueryLimitError):
                meter.predict_proba(rows(*call))
        else:
            meter.predict_proba(rows(*call) if call else np.empty((0, 2)))
            bought |= new
    assert lender.count == meter.spent == len(bought) <= limit
