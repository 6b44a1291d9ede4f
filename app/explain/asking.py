"""Records put to an ensemble as it is now: /ensembles/{name}/predict and /explanations/{id}/verify.

Both are metered. What was asked before is free.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import numpy as np
from anyio import to_thread
from numpy.typing import NDArray

from app.concurrency import Deadline, SharedThreads, until
from app.db.engine import Database
from app.db.tables import AnyRow
from app.ensembles.directory import EnsembleDirectory
from app.ensembles.meter import EnsembleMeter
from app.ensembles.service import find_ensemble
from app.errors import ConflictError, NotFoundError, TooLargeError
from app.explain.contract import Explainer, VerifiedRecord, VerifyAnswer, VerifyTask
from app.explain.decisions import find_explanation
from app.explain.service import active_version, deadline_seconds
from app.registry import queries
from app.settings import Settings
from models.data.records import Value, read_each
from models.data.schema import Schema

TOLERANCE = 1e-9
"""The same as the search's: 4 of 5 are 0.8."""
Judge = Callable[[NDArray[np.float64]], VerifiedRecord]
"""What the members' probabilities (m, K) say of one record; NaN where a member did not answer."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The ensemble's row and what it said."""

    ensemble: AnyRow
    answer: VerifyAnswer


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


@dataclass(frozen=True)
class AskService:
    """Asks ensembles; `threads` wait for remote ones. It is used on one event loop."""

    settings: Settings
    database: Database
    explainer: Explainer
    ensembles: EnsembleDirectory
    threads: SharedThreads

    async def predict(
        self, tenant_id: int, name: str, records: Sequence[dict[str, object]], deadline_ms: int | None = None
    ) -> Prediction:
        """What was not bought before is charged. A remote ensemble is asked from here, a local one by the explainer."""
        deadline = time.monotonic() + deadline_seconds(self.settings, deadline_ms)
        most = self.settings.max_records
        if len(records) > most:
            raise TooLargeError(f"{len(records)} records were sent, but {most} is the limit: send them in parts")
        async with until(deadline, len(records)):
            row = await to_thread.run_sync(find_ensemble, self.database, tenant_id, name)
            if row.kind == "remote":
                # A thread that nobody waits for any more ends by itself: it asks nothing after the deadline.
                ask = partial(self._ask_remote, row, records, Deadline(deadline))
                return Prediction(row, await self.threads.run(tenant_id, ask))
            version_id = await to_thread.run_sync(_version_of, self.database, row)
            task = VerifyTask(tenant_id, version_id, records, deadline=deadline)
            return Prediction(row, await self.explainer.verify(task))

    async def verify(
        self, tenant_id: int, explanation_id: UUID, counterfactual: int, deadline_ms: int | None
    ) -> Verification:
        """Whether a promised record is accepted by the active version's ensemble as it is now: one query at most."""
        deadline = time.monotonic() + deadline_seconds(self.settings, deadline_ms)
        row = await to_thread.run_sync(find_explanation, self.database, tenant_id, explanation_id)
        record = promised_record(row, counterfactual)
        active = await to_thread.run_sync(active_version, self.database, tenant_id, row.model)
        task = VerifyTask(tenant_id, active.version_id, [record], row.target, deadline)
        answer = await self.explainer.verify(task)
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

    def _ask_remote(self, row: AnyRow, records: Sequence[Mapping[str, object]], deadline: Deadline) -> VerifyAnswer:
        return ask_records(self.ensembles.remote_of(row), Schema.from_json(row.schema), records, deadline)


def heard(said: NDArray[np.float64]) -> VerifiedRecord:
    """What the members said, without a vote."""
    return VerifiedRecord(tuple(None if np.isnan(row).any() else tuple(row.tolist()) for row in said))


def ask_records(
    meter: EnsembleMeter,
    schema: Schema,
    records: Sequence[Mapping[str, object]],
    deadline: Deadline,
    judge: Judge = heard,
) -> VerifyAnswer:
    """What the ensemble says of each record. It blocks; a record that cannot be read is not asked, and says why."""
    read = read_each(schema, records)
    answers = [VerifiedRecord(error=error) for error in read.errors]
    with meter.open(max(1, len(read.places)), deadline=deadline) as ensemble:
        said = ensemble.ask(read.records)
    for column, place in enumerate(read.places):
        answers[place] = judge(said.probabilities[:, column])
    return VerifyAnswer(meter.member_names, meter.classes, tuple(answers), said.charged, said.reused)


def _version_of(database: Database, row: AnyRow) -> UUID:
    with database.reading() as connection:
        found = queries.newest_of_ensemble(connection, row.tenant_id, row.id, row.version)
    if found is None:
        raise NotFoundError(f"no model version holds the ensemble {row.name!r} yet: wait for its training")
    return found


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
