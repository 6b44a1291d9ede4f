"""Budgets: limits, what is left of them, and where it went."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import RowMapping

from app.db.engine import Database
from app.db.ledger_tables import Period
from app.db.paging import PageOrder, write_number
from app.db.tables import AnyRow, utc_now
from app.ensembles import directory
from app.errors import NotFoundError, TooLargeError
from app.ledger import queries
from app.ledger.audit import UsagePoint, ledger_csv, usage_series
from app.ledger.balance import Balance
from app.ledger.ledger import Ledger
from app.ledger.queries import Step
from models.errors import ConfigError

MOST_POINTS = 2_000
STEP_LENGTH = {Step.HOUR: timedelta(hours=1), Step.DAY: timedelta(days=1)}
DEFAULT_SPAN = {Step.HOUR: timedelta(days=2), Step.DAY: timedelta(days=30)}


@dataclass(frozen=True, slots=True)
class NamedBalance:
    """A budget and the name of its ensemble."""

    ensemble: str
    balance: Balance


@dataclass(frozen=True, slots=True)
class Usage:
    """A series of queries asked in [since, until)."""

    since: datetime
    until: datetime
    points: list[UsagePoint]


def find_ensemble(database: Database, tenant_id: int, name: str) -> AnyRow:
    with database.reading() as connection:
        row = directory.find_ensemble(connection, tenant_id, name)
    if row is None:
        raise NotFoundError(f"there is no ensemble {name!r}: see GET /ensembles")
    return row


def list_budgets(
    database: Database, ledger: Ledger, tenant_id: int, order: PageOrder
) -> tuple[list[NamedBalance], str | None]:
    """The tenant's budgets in the order of their ensembles, and the cursor of the next page."""
    with database.reading() as connection:
        found = queries.budgets_page(connection, tenant_id, order.after_number, order.limit + 1)
    shown = found[: order.limit]
    following = write_number(shown[-1].ensemble_id) if len(found) > order.limit else None
    return [NamedBalance(row.name, ledger.balance(tenant_id, row.ensemble_id)) for row in shown], following


def set_budget(
    database: Database, ledger: Ledger, tenant_id: int, name: str, limit: int, period: Period | None, restart: bool
) -> NamedBalance:
    ensemble = find_ensemble(database, tenant_id, name)
    return NamedBalance(name, ledger.set_limit(tenant_id, ensemble.id, limit, period, restart))


def show_usage(
    database: Database, tenant_id: int, name: str, step: Step, since: datetime | None, until: datetime | None
) -> Usage:
    """By default the last two days by the hour, or the last thirty by the day."""
    ensemble = find_ensemble(database, tenant_id, name)
    end = until or utc_now()
    begin = since or end - DEFAULT_SPAN[step]
    if begin > end:
        raise ConfigError(f"since, {begin.isoformat()}, is after until, {end.isoformat()}: swap them")
    if (end - begin) / STEP_LENGTH[step] > MOST_POINTS:
        raise TooLargeError(f"the series would have more than {MOST_POINTS} steps of a {step}: ask for a shorter time")
    return Usage(begin, end, usage_series(database, tenant_id, ensemble.id, step, begin, end))


def list_entries(
    database: Database, tenant_id: int, name: str, order: PageOrder
) -> tuple[list[RowMapping], str | None]:
    """A page of the ledger, oldest first, and the cursor of the next."""
    ensemble = find_ensemble(database, tenant_id, name)
    with database.reading() as connection:
        found = list(queries.entries_page(connection, tenant_id, ensemble.id, order.after_number, order.limit + 1))
    shown = found[: order.limit]
    return shown, write_number(shown[-1]["id"]) if len(found) > order.limit else None


def export_entries(database: Database, tenant_id: int, name: str) -> Iterator[str]:
    """The whole ledger of an ensemble as CSV, read as it is sent."""
    return ledger_csv(database, tenant_id, find_ensemble(database, tenant_id, name).id)
