"""POST /explain: find the active version, have the explainer run the task, keep the decision records, then answer."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from anyio import to_thread
from pydantic_core import to_json
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.tables import AnyRow, utc_now
from app.errors import NotFoundError, TooLargeError
from app.explain.contract import ExplainAnswer, Explainer, ExplainRequest, ExplainTask
from app.explain.decisions import Decision, DecisionWriter
from app.registry import queries
from app.settings import Settings

MOST_WORK = 300_000
"""Paths that one request may ask for: 1,000 records with 30 candidates and k = 10."""


@dataclass(frozen=True)
class ExplainService:
    """Answers requests. It is used on one event loop."""

    settings: Settings
    database: Database
    explainer: Explainer
    decisions: DecisionWriter

    async def explain(
        self,
        tenant_id: int,
        request_id: str,
        request: ExplainRequest,
        keep: Callable[[Connection, bytes], None] | None = None,
    ) -> bytes:
        """The reply's JSON; every record's row is in the database before it is returned, and what `keep` makes of it.

        The request keeps the version that is active when it begins, also when another becomes active meanwhile.
        """
        deadline = time.monotonic() + deadline_seconds(self.settings, request.deadline_ms)
        _check_size(self.settings, request)
        version = await to_thread.run_sync(active_version, self.database, tenant_id, request.model)
        answer = await self.explainer.explain(
            ExplainTask(request, tenant_id, version.version_id, deadline, policy=version.policy)
        )
        ids = [uuid4() for _ in answer.records]
        reply = _reply(request_id, request, version, answer, ids)
        rows = _decisions(tenant_id, request_id, request, version.version_id, answer, ids)
        await self.decisions.write(rows, None if keep is None else lambda connection: keep(connection, reply))
        return reply


def active_version(database: Database, tenant_id: int, name: str) -> AnyRow:
    """version_id, number and model of the version that answers; NotFoundError if nothing was trained under the name."""
    row = database.read(queries.find_active, tenant_id, name)
    if row is None:
        raise NotFoundError(f"there is no trained model '{name}': see GET /models")
    return row


def deadline_seconds(settings: Settings, asked_ms: int | None) -> float:
    """What the request asks for, within what the operator allows."""
    return min(asked_ms or settings.deadline_ms, settings.max_deadline_ms) / 1000


def _check_size(settings: Settings, request: ExplainRequest) -> None:
    records = len(request.records)
    if records > settings.max_records:
        raise TooLargeError(f"{records} records were sent, {settings.max_records} is the limit: send them in parts")
    if request.work > MOST_WORK:
        fact = f"{records} records, {request.candidates} candidates and k = {request.k} make {request.work} paths"
        raise TooLargeError(f"{fact}, {MOST_WORK} is the limit: ask for fewer at a time")


def _decisions(
    tenant_id: int,
    request_id: str,
    request: ExplainRequest,
    version_id: UUID,
    answer: ExplainAnswer,
    ids: Sequence[UUID],
) -> list[Decision]:
    now, order = utc_now(), to_json(request.document())
    return [
        Decision(
            id=ids[position],
            tenant_id=tenant_id,
            model_version_id=version_id,
            request_id=request_id,
            position=position,
            target=request.target,
            record=to_json(record),
            order=order,
            status=answered.status,
            answer=answered.body,
            queries=answered.queries,
            created_at=now,
        )
        for position, (record, answered) in enumerate(zip(request.records, answer.records, strict=True))
    ]


def _reply(
    request_id: str, request: ExplainRequest, version: AnyRow, answer: ExplainAnswer, ids: Sequence[UUID]
) -> bytes:
    """The answers are JSON already; only what differs each time is written here: the head, the ids, the charges."""
    head = {
        "request_id": request_id,
        "model": version.model,
        "version": version.number,
        "target": request.target,
        "seed": request.seed,
        "queries": sum(record.queries for record in answer.records),
        "charged": sum(record.charged for record in answer.records),
    }
    each = (
        b'{"id":"%s","charged":%d,%s' % (str(identity).encode(), record.charged, record.body[1:])
        for identity, record in zip(ids, answer.records, strict=True)
    )
    return to_json(head)[:-1] + b',"explanations":[' + b",".join(each) + b"]}"
