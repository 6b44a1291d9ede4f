"""POST /explanations/{id}/verify: does a promised recourse hold under the active version's ensemble, as it is now?"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import numpy as np
from anyio import to_thread

from app.concurrency import Deadline, until
from app.db.engine import Database
from app.db.tables import AnyRow
from app.ensembles.budgets import find_ensemble
from app.errors import ConflictError, NotFoundError, TooLargeError
from app.explain.contract import VerifiedRecord, VerifyAnswer, VerifyOrder
from app.explain.decisions import find_explanation
from app.explain.service import deadline_seconds
from app.registry import queries
from app.resources import Resources
from models.data.records import Value, check_record
from models.data.schema import Schema
from models.errors import RecordError


@dataclass(frozen=True, slots=True)
class Prediction:
    """The ensemble's row and what it said."""

    ensemble: AnyRow
    answer: VerifyAnswer


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


def _version_of(database: Database, row: AnyRow) -> UUID:
    with database.reading() as connection:
        found = queries.newest_of_ensemble(connection, row.tenant_id, row.id, row.version)
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
    meter = resources.ensembles.remote_of(row)
    with meter.open(max(1, len(places)), deadline=Deadline(deadline)) as ensemble:
        said = ensemble.ask(np.concatenate(rows))
    for column, position in enumerate(places):
        votes = said.probabilities[:, column]
        answers[position] = VerifiedRecord(tuple(None if np.isnan(v).any() else tuple(v.tolist()) for v in votes))
    return VerifyAnswer(meter.member_names, meter.classes, tuple(answers), said.charged, said.reused)


TOLERANCE = 1e-9
"""The same as the search's: 4 of 5 are 0.8."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What was promised, and what the ensemble says of it now; votes by member, None where it did not answer."""

    id: UUID
    holds: bool
    agreement: float
    lower_bound: float
    min_agreement: float
    votes: tuple[tuple[str, bool | None], ...]
    charged: int
    model: str
    promised_version: int
    asked_version: int


async def verify(
    resources: Resources, tenant_id: int, explanation_id: UUID, counterfactual: int, deadline_ms: int | None
) -> Verification:
    """One record is put to the ensemble, unless its answer was bought before."""
    deadline = time.monotonic() + deadline_seconds(resources.settings, deadline_ms)
    row = await to_thread.run_sync(find_explanation, resources.database, tenant_id, explanation_id)
    record = promised_record(row, counterfactual)
    active = await resources.active.look_up(tenant_id, row.model)
    order = VerifyOrder(tenant_id, active.version_id, [record], row.target, deadline)
    answer = await resources.explainer.verify(order)
    said = answer.records[0]
    if said.error is not None or said.votes is None or said.agreement is None or said.lower_bound is None:
        raise ConflictError(f"version {active.number} of '{row.model}' cannot read this recourse: {said.error}")
    wanted = float(row.order["robustness"]["min_agreement"])
    return Verification(
        id=row.id,
        holds=said.agreement >= wanted - TOLERANCE,
        agreement=said.agreement,
        lower_bound=said.lower_bound,
        min_agreement=wanted,
        votes=tuple(zip(answer.members, said.votes, strict=True)),
        charged=answer.charged,
        model=row.model,
        promised_version=row.version,
        asked_version=active.number,
    )


def promised_record(row: AnyRow, counterfactual: int) -> dict[str, Value]:
    """The record that was promised to be accepted: an answer, or the applicant's own if that was in the class."""
    promised = row.answer["counterfactuals"]
    if row.status == "already_target" and counterfactual == 0:
        own: dict[str, Value] = row.record
        return own
    if counterfactual >= len(promised):
        fact = f"explanation {row.id} is {row.status} and has {len(promised)} counterfactuals"
        raise ConflictError(f"{fact}: there is no number {counterfactual} to verify")
    record: dict[str, Value] = promised[counterfactual]["record"]
    return record
