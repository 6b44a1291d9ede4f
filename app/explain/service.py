"""POST /explain: resolve the model, run the order, keep the decision records, and only then answer."""

import time
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID, uuid4

from pydantic_core import to_json

from app.db.tables import AnyRow, utc_now
from app.errors import TooLargeError
from app.explain.contract import ExplainAnswer, ExplainRequest
from app.explain.decisions import Decision
from app.resources import Resources
from app.settings import Settings

MOST_WORK = 300_000
"""Paths that one request may ask for: 1,000 records with 30 candidates and k = 10."""


async def explain(resources: Resources, tenant_id: int, request_id: str, request: ExplainRequest) -> bytes:
    """The reply's JSON; every record's row is in the database before it is returned.

    The search begins with the version of the last time, and is begun anew in the rare case that another is active. One
    that asks is never begun twice: what it asks is charged.
    """
    deadline = time.monotonic() + deadline_seconds(resources.settings, request.deadline_ms)
    _check_size(resources.settings, request)

    async def attempt(version: AnyRow, model: str | None = None) -> bytes | None:
        """The reply; with a model's name, None if another version is active under it."""
        answer = await resources.explainer.explain(request.order(tenant_id, version.version_id, deadline))
        ids = [uuid4() for _ in answer.records]
        rows = _decisions(tenant_id, request_id, request, version.version_id, answer, ids)
        written = await resources.decisions.write(rows, model)
        return _reply(request_id, request, version, answer, ids) if written else None

    last = None if request.max_queries else resources.active.last(tenant_id, request.model)
    failure: Exception | None = None
    if last is not None:
        try:
            reply = await attempt(last, request.model)
            if reply is not None:
                return reply
        # Whatever it is, it counts only if this version was the one to ask.
        except Exception as error:
            failure = error
    version = await resources.active.look_up(tenant_id, request.model)
    if failure is not None and last is not None and version.version_id == last.version_id:
        raise failure
    reply = await attempt(version)
    assert reply is not None
    return reply


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
    now: datetime = utc_now()
    order = to_json(request.document())
    return [
        Decision(
            id=ids[position],
            tenant_id=tenant_id,
            model_version_id=version_id,
            request_id=request_id,
            position=position,
            target=request.target,
            record=to_json(record, inf_nan_mode="null"),
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
