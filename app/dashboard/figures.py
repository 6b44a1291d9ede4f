"""The figures beside a budget: what became of its queries, and how long it will last."""

from dataclasses import dataclass
from datetime import datetime

from app.dashboard.projection import SPAN, project
from app.db import explanations
from app.db.engine import Database
from app.db.entries import Step
from app.ledger.ledger import Ledger
from app.ledger.usage import usage_series
from app.services.budgets import find_ensemble
from app.services.refusals import Refusals


@dataclass(frozen=True, slots=True)
class Refusal:
    """Requests of the tenant that were refused for one reason since the process began."""

    reason: str
    title: str
    count: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one ensemble; `outcomes` counts explained records by status."""

    ensemble: str
    outcomes: dict[str, int]
    explain_queries: int
    queries_per_robust: float | None
    refusals: list[Refusal]
    refusals_since: datetime
    per_day: float
    exhausted_at: datetime | None


def figures(
    database: Database, ledger: Ledger, refusals: Refusals, tenant_id: int, name: str, now: datetime
) -> Figures:
    ensemble = find_ensemble(database, tenant_id, name)
    with database.reading() as connection:
        rows = explanations.outcomes(connection, tenant_id, ensemble.id)
    counts = {row.status: int(row.records) for row in rows}
    queries = sum(int(row.queries or 0) for row in rows)
    robust = counts.get("robust", 0)
    hours = usage_series(database, tenant_id, ensemble.id, Step.HOUR, now - SPAN, now)
    pace = project(hours, ledger.balance(tenant_id, ensemble.id), now)
    return Figures(
        ensemble=name,
        outcomes=counts,
        explain_queries=queries,
        queries_per_robust=queries / robust if robust else None,
        refusals=[Refusal(word, title, count) for word, title, count in refusals.of(tenant_id)],
        refusals_since=refusals.since,
        per_day=pace.per_day,
        exhausted_at=pace.exhausted_at,
    )
