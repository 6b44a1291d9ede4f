"""Orders and answers between the API and its workers: JSON, and errors by their names."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from pydantic_core import from_json, to_json

from app import errors as service_errors
from app.errors import UnavailableError
from app.explaining.protocol import (
    ExplainAnswer,
    ExplainerState,
    ExplainOrder,
    RecordAnswer,
    VerifiedRecord,
    VerifyAnswer,
    VerifyOrder,
)
from models import errors as method_errors
from models.errors import RecourseError
from models.schema import Direction

Document: TypeAlias = Mapping[str, Any]
"""JSON that the other side of this file wrote."""

KEY_HEADER = "X-Worker-Key"
VERSION_HEADER, VERSION = "X-Wire-Version", "2"
"""Of the orders and answers that travel: raised with every change, so that two releases do not misread each other."""
NAMED: dict[str, type[RecourseError]] = {
    name: kind
    for module in (method_errors, service_errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, RecourseError)
}


def write_explain_order(order: ExplainOrder) -> bytes:
    return to_json(
        {
            "order_id": order.order_id,
            "tenant_id": order.tenant_id,
            "version_id": order.version_id,
            "records": order.records,
            "target": order.target,
            "immutable": order.immutable,
            "ranges": order.ranges,
            "directions": order.directions,
            "k": order.k,
            "min_agreement": order.min_agreement,
            "max_queries": order.max_queries,
            "price": order.price,
            "candidates": order.candidates,
            "seed": order.seed,
            "trajectory": order.trajectory,
            "seconds": _seconds_left(order.deadline),
        }
    )


def read_explain_order(body: bytes) -> ExplainOrder:
    return _explain_order(from_json(body))


def write_explain_orders(orders: Sequence[ExplainOrder]) -> bytes:
    return b"[" + b",".join(map(write_explain_order, orders)) + b"]"


def read_explain_orders(body: bytes) -> list[ExplainOrder]:
    return [_explain_order(document) for document in from_json(body)]


def _explain_order(document: Document) -> ExplainOrder:
    return ExplainOrder(
        tenant_id=document["tenant_id"],
        version_id=UUID(document["version_id"]),
        records=document["records"],
        target=document["target"],
        immutable=tuple(document["immutable"]),
        ranges={name: tuple(wanted) for name, wanted in document["ranges"].items()},
        directions={name: Direction(way) for name, way in document["directions"].items()},
        k=document["k"],
        min_agreement=document["min_agreement"],
        max_queries=document["max_queries"],
        price=document["price"],
        candidates=document["candidates"],
        seed=document["seed"],
        trajectory=document["trajectory"],
        deadline=_deadline(document["seconds"]),
        order_id=UUID(document["order_id"]),
    )


def write_explain_answer(answer: ExplainAnswer) -> bytes:
    """The bodies travel as texts: they are not read on the way."""
    return to_json([(one.status, one.queries, one.body.decode(), one.charged) for one in answer.records])


def read_explain_answer(body: bytes) -> ExplainAnswer:
    return _explain_answer(from_json(body))


def _explain_answer(records: list[tuple[str, int, str, int]]) -> ExplainAnswer:
    return ExplainAnswer(
        tuple(RecordAnswer(status, queries, text.encode(), charged) for status, queries, text, charged in records)
    )


def write_outcomes(outcomes: Sequence[ExplainAnswer | BaseException]) -> bytes:
    """An answer or an error for each order of a bundle."""
    written = (
        write_explain_answer(outcome) if isinstance(outcome, ExplainAnswer) else write_error(outcome)
        for outcome in outcomes
    )
    return b"[" + b",".join(written) + b"]"


def read_outcomes(body: bytes) -> list[ExplainAnswer | RecourseError]:
    return [_error(outcome) if isinstance(outcome, dict) else _explain_answer(outcome) for outcome in from_json(body)]


def write_verify_order(order: VerifyOrder) -> bytes:
    return to_json(
        {
            "order_id": order.order_id,
            "tenant_id": order.tenant_id,
            "version_id": order.version_id,
            "records": order.records,
            "target": order.target,
            "seconds": _seconds_left(order.deadline),
        }
    )


def read_verify_order(body: bytes) -> VerifyOrder:
    document: Document = from_json(body)
    return VerifyOrder(
        tenant_id=document["tenant_id"],
        version_id=UUID(document["version_id"]),
        records=document["records"],
        target=document["target"],
        deadline=_deadline(document["seconds"]),
        order_id=UUID(document["order_id"]),
    )


def write_verify_answer(answer: VerifyAnswer) -> bytes:
    return to_json(answer)


def read_verify_answer(body: bytes) -> VerifyAnswer:
    document: Document = from_json(body)
    return VerifyAnswer(
        members=tuple(document["members"]),
        classes=tuple(document["classes"]),
        records=tuple(_verified_record(record) for record in document["records"]),
        charged=document["charged"],
        reused=document["reused"],
    )


def write_state(state: ExplainerState) -> bytes:
    return to_json(state)


def read_state(body: bytes) -> ExplainerState:
    return ExplainerState(**from_json(body))


def write_error(error: BaseException) -> bytes:
    """A fault of ours keeps its message to itself: the log has it."""
    if isinstance(error, RecourseError):
        return to_json({"error": type(error).__name__, "message": str(error)})
    return to_json({"error": UnavailableError.__name__, "message": "the explainer failed: its log tells more"})


def read_error(body: bytes) -> RecourseError:
    try:
        return _error(from_json(body))
    except (ValueError, KeyError, TypeError):
        return UnavailableError("a worker answered with what is not an answer: see its log")


def _error(document: Document) -> RecourseError:
    return NAMED[document["error"]](document["message"])


def _verified_record(record: Document) -> VerifiedRecord:
    votes = record["votes"]
    return VerifiedRecord(
        probabilities=tuple(None if row is None else tuple(row) for row in record["probabilities"]),
        votes=None if votes is None else tuple(votes),
        agreement=record["agreement"],
        lower_bound=record["lower_bound"],
        error=record["error"],
    )


def _seconds_left(deadline: float) -> float | None:
    """Clocks of two machines have nothing in common, but a second is a second."""
    return None if math.isinf(deadline) else deadline - time.monotonic()


def _deadline(seconds: float | None) -> float:
    return math.inf if seconds is None else time.monotonic() + seconds
