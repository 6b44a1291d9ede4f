"""How a budget was used over time, for charts."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate

from app.db.engine import Database
from app.db.entries import Step, dispatched_by_step


@dataclass(frozen=True, slots=True)
class UsagePoint:
    """Queries asked in the step that begins at `at`, and in all since the series began."""

    at: datetime
    dispatched: int
    total: int


def usage_series(
    database: Database, tenant_id: int, ensemble_id: int, step: Step, since: datetime, until: datetime
) -> list[UsagePoint]:
    """The queries that were asked in [since, until), oldest first, one point for each step that had any."""
    with database.reading() as connection:
        steps = dispatched_by_step(connection, tenant_id, ensemble_id, step, since, until)
    totals = accumulate(count for _, count in steps)
    return [
        UsagePoint(datetime.fromisoformat(begin).replace(tzinfo=UTC), count, total)
        for (begin, count), total in zip(steps, totals, strict=True)
    ]
