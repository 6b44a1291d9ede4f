"""When a budget will be used up: known answers."""

from datetime import UTC, datetime, timedelta

import pytest

from app.dashboard.figures import project
from app.db.ledger_tables import Period
from app.ledger.audit import UsagePoint
from app.ledger.balance import Balance

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


def balance(limit: int, used: int, ends: datetime | None = None) -> Balance:
    return Balance(Period.NONE if ends is None else Period.MONTH, "x", ends, limit, used, 0)


def used(*days_and_counts: tuple[float, int]) -> list[UsagePoint]:
    return [UsagePoint(NOW - timedelta(days=days), count, 0) for days, count in days_and_counts]


def test_a_steady_pace() -> None:
    found = project(used((4, 100), (2, 100)), balance(1000, 200), NOW)
    assert found.per_day == pytest.approx(50)
    assert found.exhausted_at == NOW + timedelta(days=16)


def test_nothing_asked_runs_out_never() -> None:
    assert project([], balance(10, 0), NOW).exhausted_at is None
    assert project(used((8, 100)), balance(1000, 100), NOW).per_day == 0


def test_a_period_that_ends_before() -> None:
    assert project(used((4, 100)), balance(1000, 100, NOW + timedelta(days=20)), NOW).exhausted_at is None
    assert project(used((4, 100)), balance(200, 100, NOW + timedelta(days=20)), NOW).exhausted_at is not None


def test_the_first_minutes_are_not_taken_for_a_pace() -> None:
    found = project(used((0.001, 48)), balance(1000, 48), NOW)
    assert found.per_day == 48 and found.exhausted_at == NOW + timedelta(days=952 / 48)


def test_a_limit_of_nothing() -> None:
    assert project([], balance(0, 0), NOW).exhausted_at is None
    assert project(used((1, 10)), balance(0, 10), NOW).exhausted_at == NOW


def test_used_up_is_now() -> None:
    assert project(used((1, 10)), balance(10, 10), NOW).exhausted_at == NOW
