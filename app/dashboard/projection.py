"""When a budget will be used up, if it goes on as it did: the pace of the last days, or since its first query."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.ledger.results import Balance
from app.ledger.usage import UsagePoint

SPAN = timedelta(days=7)
LEAST_SPAN = timedelta(days=1)
"""One training in the first hour is no pace of 24 trainings a day."""
FARTHEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Projection:
    """`per_day` queries; `exhausted_at` None where it will not run out: no use, or the period ends before."""

    per_day: float
    exhausted_at: datetime | None


def project(points: Sequence[UsagePoint], balance: Balance, now: datetime) -> Projection:
    """`points` by the hour, of the last seven days."""
    recent = [point for point in points if point.at > now - SPAN]
    asked = sum(point.dispatched for point in recent)
    if not asked:
        return Projection(0.0, None)
    span = max(min(now - recent[0].at, SPAN), LEAST_SPAN)
    per_day = asked / (span / timedelta(days=1))
    left = timedelta(days=max(balance.remaining, 0) / per_day)
    exhausted = now + left if left < FARTHEST else None
    if exhausted is not None and balance.period_ends is not None and exhausted >= balance.period_ends:
        exhausted = None
    return Projection(per_day, exhausted)
