"""Ensembles: registered by an admin, asked through the ledger."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import numpy as np
from anyio import to_thread
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.blackbox.deadline import Deadline, until
from app.blackbox.endpoint import Endpoint
from app.blackbox.registry import describe
from app.db import ensembles, models
from app.db.engine import Database
from app.db.tables import Period
from app.db.types import AnyRow
from app.errors import ConflictError, NotFoundError, TooLargeError
from app.explaining.protocol import VerifiedRecord, VerifyAnswer, VerifyOrder
from app.ledger.ledger import utc_now
from app.resources import Resources
from app.services.budgets import find_ensemble
from app.services.explain import deadline_seconds
from app.services.paging import PageOrder, RowPage, write_number
from models.errors import RecordError
from models.records import Value, check_record
from models.schema import Schema


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
class Prediction:
    """The ensemble's row and what it said."""

    ensemble: AnyRow
    answer: VerifyAnswer


def register(resources: Resources, tenant_id: int, wanted: Registration) -> AnyRow:
    """The row of the ensemble, new or replaced, with its budget set."""
    resources.registry.check(wanted.schema, wanted.endpoints)
    credentials = resources.registry.seal(wanted.endpoints)
    endpoints = [describe(endpoint) for endpoint in wanted.endpoints]
    _check_budget(resources, tenant_id, wanted)
    with resources.database.writing() as connection:
        found = ensembles.lock(connection, tenant_id, wanted.name)
        if found is not None:
            _check_replaced(found, wanted)
        ensemble_id = found.id if found is not None else _add(connection, tenant_id, wanted)
        schema = wanted.schema.to_json()
        ensembles.describe_remote(connection, tenant_id, ensemble_id, wanted.version, schema, endpoints, credentials)
    resources.ledger.set_limit(tenant_id, ensemble_id, wanted.limit, wanted.period, wanted.restart)
    return find_ensemble(resources.database, tenant_id, wanted.name)


def _check_budget(resources: Resources, tenant_id: int, wanted: Registration) -> None:
    """Before anything is changed: a budget that may not be set changes no ensemble either."""
    with resources.database.reading() as connection:
        found = ensembles.find(connection, tenant_id, wanted.name)
    if found is not None and not wanted.restart:
        resources.ledger.check_period(tenant_id, found.id, wanted.period)


def list_ensembles(database: Database, tenant_id: int, order: PageOrder) -> RowPage:
    with database.reading() as connection:
        found = ensembles.page(connection, tenant_id, order.after_number, order.limit + 1)
    shown = found[: order.limit]
    return RowPage(shown, write_number(shown[-1].id) if len(found) > order.limit else None)


async def predict(
    resources: Resources,
    tenant_id: int,
    name: str,
    records: Sequence[Mapping[str, Value]],
    deadline_ms: int | None = None,
) -> Prediction:
    """What was not bought before is charged. A remote ensemble is asked from here, a local one by the explainer."""
    deadline = time.monotonic() + deadline_seconds(resources.settings, deadline_ms)
    most = resources.settings.max_records
    if len(records) > most:
        raise TooLargeError(f"{len(records)} records were sent, but {most} is the limit: send them in parts")
    async with until(deadline, len(records)):
        row = await to_thread.run_sync(find_ensemble, resources.database, tenant_id, name)
        if row.kind == "remote":
            # A thread that nobody waits for any more ends by itself: it asks nothing after the deadline.
            ask = partial(_ask_remote, resources, row, records, deadline)
            return Prediction(row, await resources.asking.run(tenant_id, ask))
        version_id = await to_thread.run_sync(_version_of, resources.database, row)
        order = VerifyOrder(tenant_id, version_id, records, deadline=deadline)
        return Prediction(row, await resources.explainer.verify(order))


def _add(connection: Connection, tenant_id: int, wanted: Registration) -> int:
    try:
        return ensembles.add(connection, tenant_id, wanted.name, wanted.version, utc_now())
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


def _version_of(database: Database, row: AnyRow) -> UUID:
    with database.reading() as connection:
        found = models.newest_of_ensemble(connection, row.tenant_id, row.id, row.version)
    if found is None:
        raise NotFoundError(f"no model version holds the ensemble {row.name!r} yet: wait for its training")
    return found


def _ask_remote(
    resources: Resources, row: AnyRow, records: Sequence[Mapping[str, Value]], deadline: float
) -> VerifyAnswer:
    """A record that cannot be read gets its own error, and is not asked."""
    schema = Schema.from_json(row.schema)
    answers: list[VerifiedRecord] = [VerifiedRecord()] * len(records)
    rows, places = [np.empty((0, len(schema.features)))], []
    for position, record in enumerate(records):
        try:
            rows.append(check_record(schema, record))
            places.append(position)
        except RecordError as error:
            answers[position] = VerifiedRecord(error=str(error))
    meter = resources.registry.remote_of(row)
    with meter.open(max(1, len(places)), deadline=Deadline(deadline)) as ensemble:
        said = ensemble.ask(np.concatenate(rows))
    for column, position in enumerate(places):
        votes = said.probabilities[:, column]
        answers[position] = VerifiedRecord(tuple(None if np.isnan(v).any() else tuple(v.tolist()) for v in votes))
    return VerifyAnswer(meter.member_names, meter.classes, tuple(answers), said.charged, said.reused)
