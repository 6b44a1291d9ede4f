"""Ensembles: registered by an admin, asked through the ledger."""

from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.db.engine import Database
from app.db.ledger_tables import Period
from app.db.tables import AnyRow, utc_now
from app.ensembles import directory
from app.ensembles.budgets import find_ensemble
from app.ensembles.directory import EnsembleDirectory, describe
from app.ensembles.endpoint import Endpoint
from app.errors import ConflictError
from app.ledger.ledger import Ledger
from models.data.schema import Schema


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


def register(
    database: Database, ledger: Ledger, ensembles: EnsembleDirectory, tenant_id: int, wanted: Registration
) -> AnyRow:
    """The row of the ensemble, new or replaced, with its budget set."""
    ensembles.check(wanted.endpoints)
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
