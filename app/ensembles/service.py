"""The lender's ensembles: registered by an admin, each with a budget; its balance, its usage and its ledger.

And endpoints, which the operator binds to tenants.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.auth.queries import ensure_operator, find_key
from app.db.engine import Database
from app.db.ledger_tables import Period
from app.db.paging import PageOrder, RowPage, found
from app.db.tables import OPERATOR, AnyRow, utc_now
from app.ensembles import bindings, directory
from app.ensembles.directory import EnsembleDirectory, describe
from app.ensembles.endpoint import Endpoint
from app.errors import ConflictError, TooLargeError
from app.ledger import queries
from app.ledger.audit import Step, UsagePoint, ledger_csv, usage_series
from app.ledger.balance import MOST_MAKER, Balance, Correction
from app.ledger.ledger import Ledger
from models.data.schema import Schema
from models.errors import ConfigError

MOST_POINTS = 2_000
STEP_LENGTH = {Step.HOUR: timedelta(hours=1), Step.DAY: timedelta(days=1)}
DEFAULT_SPAN = {Step.HOUR: timedelta(days=2), Step.DAY: timedelta(days=30)}


@dataclass(frozen=True, slots=True)
class Registration:
    """What an admin says of a remote ensemble."""

    name: str
    version: str
    schema: Schema
    endpoints: tuple[Endpoint, ...]
    limit: int
    period: Period | None
    restart: bool = False


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


def register(
    database: Database, ledger: Ledger, ensembles: EnsembleDirectory, tenant_id: int, wanted: Registration
) -> AnyRow:
    """The row of the ensemble, new or replaced, with its budget set."""
    ensembles.check(tenant_id, wanted.endpoints)
    credentials = ensembles.encrypt_credentials(wanted.endpoints)
    endpoints = [describe(endpoint) for endpoint in wanted.endpoints]
    _check_budget(database, ledger, tenant_id, wanted)
    with database.writing() as connection:
        found = directory.lock_ensemble(connection, tenant_id, wanted.name)
        if found is not None:
            _check_replaced(found, wanted)
        ensemble_id = found.id if found is not None else _add_rows(connection, tenant_id, wanted)
        schema = wanted.schema.to_json()
        directory.describe_remote(connection, tenant_id, ensemble_id, wanted.version, schema, endpoints, credentials)
    ledger.set_limit(tenant_id, ensemble_id, wanted.limit, wanted.period, wanted.restart)
    return find_ensemble(database, tenant_id, wanted.name)


def _check_budget(database: Database, ledger: Ledger, tenant_id: int, wanted: Registration) -> None:
    """Before anything is changed: a budget that may not be set changes no ensemble either."""
    found = database.read(directory.find_ensemble, tenant_id, wanted.name)
    if found is not None and not wanted.restart:
        ledger.check_period(tenant_id, found.id, wanted.period)


def _add_rows(connection: Connection, tenant_id: int, wanted: Registration) -> int:
    try:
        return directory.add_ensemble(connection, tenant_id, wanted.name, wanted.version, utc_now())
    except IntegrityError as error:
        raise ConflictError(f"{wanted.name!r} was registered by another request just now: try again") from error


def _check_replaced(found: AnyRow, wanted: Registration) -> None:
    if found.kind != "remote":
        raise ConflictError(f"{wanted.name!r} is an ensemble that was trained here: choose another name")
    members = [member for endpoint in wanted.endpoints for member in endpoint.members]
    if found.version == wanted.version and (found.members, found.schema) != (members, wanted.schema.to_json()):
        raise ConflictError(
            f"version {wanted.version!r} of {wanted.name!r} has other members or another schema: name a new version"
        )


def find_ensemble(database: Database, tenant_id: int, name: str) -> AnyRow:
    row = database.read(directory.find_ensemble, tenant_id, name)
    return found(row, f"ensemble {name!r}: see GET /ensembles")


def list_budgets(
    database: Database, ledger: Ledger, tenant_id: int, order: PageOrder
) -> tuple[list[NamedBalance], str | None]:
    """The tenant's budgets in the order of their ensembles, and the cursor of the next page."""
    page = database.read(queries.budgets_page, tenant_id, order)
    return [NamedBalance(row.name, ledger.balance(tenant_id, row.ensemble_id)) for row in page.rows], page.next


def set_budget(
    database: Database, ledger: Ledger, tenant_id: int, name: str, limit: int, period: Period | None, restart: bool
) -> NamedBalance:
    ensemble = find_ensemble(database, tenant_id, name)
    return NamedBalance(name, ledger.set_limit(tenant_id, ensemble.id, limit, period, restart))


def correct(
    connection: Connection, ledger: Ledger, tenant_id: int, name: str, correction: Correction, key_id: UUID
) -> NamedBalance:
    """Correct the used queries, in the name of a key; the caller commits."""
    row = directory.find_ensemble(connection, tenant_id, name)
    ensemble, key = found(row, f"ensemble {name!r}: see GET /ensembles"), find_key(connection, tenant_id, key_id)
    named = (
        correction if key is None else replace(correction, made_by=f"{correction.made_by} ({key.name})"[:MOST_MAKER])
    )
    return NamedBalance(name, ledger.correct(connection, tenant_id, ensemble.id, named))


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


def list_entries(database: Database, tenant_id: int, name: str, order: PageOrder) -> RowPage:
    """A page of the ledger, oldest first."""
    return database.read(queries.entries_page, tenant_id, find_ensemble(database, tenant_id, name).id, order)


def export_entries(database: Database, tenant_id: int, name: str) -> Iterator[str]:
    """The whole ledger of an ensemble as CSV, read in parts as it is sent."""
    return ledger_csv(database, tenant_id, find_ensemble(database, tenant_id, name).id)


def bind_endpoint(connection: Connection, name: str, url: str, tenants: Sequence[int]) -> None:
    """Let these tenants, and no others, ask an endpoint; the operator's row of that name is made if it is missing."""
    ensure_operator(connection, utc_now())
    row = directory.lock_ensemble(connection, OPERATOR, name)
    ensemble_id = directory.add_ensemble(connection, OPERATOR, name, "1", utc_now()) if row is None else row.id
    bindings.put_bound(connection, ensemble_id, url, tenants)
