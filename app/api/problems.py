"""The one place where errors become HTTP: status codes, and RFC 9457 problem+json with a stable `type`.

A refused request, whether its body cannot be read, a field is wrong or the budget is used up, is told here. Refusals
are counted by tenant and reason for the dashboard while the process runs; nothing of them is stored.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException

from app import errors as app_errors
from app.api.dependencies import request_id_of
from app.auth.principals import Principal
from app.db.tables import utc_now
from app.errors import storage_is_full
from models import errors as model_errors
from models.errors import RecourseError

MEDIA_TYPE = "application/problem+json"
MOST_FIELDS = 100
"""Wrong fields that one answer names."""
LONGEST_NAME = 200
RETRY_SOON = {"Retry-After": "1"}


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A type of problem; its `type` is /problems/<slug>, which never changes."""

    status: int
    slug: str
    title: str
    headers: Mapping[str, str] = field(default_factory=dict)


PROBLEMS: dict[type[RecourseError], ProblemType] = {
    RecourseError: ProblemType(422, "request", "The request cannot be answered as it is"),
    model_errors.SchemaError: ProblemType(422, "schema", "The schema contradicts itself"),
    model_errors.DataError: ProblemType(422, "data", "The table cannot be learned from"),
    model_errors.RecordError: ProblemType(422, "record", "A record does not fit the schema"),
    model_errors.ConstraintError: ProblemType(422, "constraint", "The constraints leave no value"),
    model_errors.TargetError: ProblemType(422, "target", "The target is not a class of the model"),
    model_errors.QueryLimitError: ProblemType(429, "query-limit", "The query budget does not allow it"),
    model_errors.EnsembleError: ProblemType(502, "ensemble", "The lender's models did not answer"),
    model_errors.SolverError: ProblemType(500, "solver", "The search did not reach its end"),
    model_errors.ConfigError: ProblemType(422, "configuration", "A setting makes no sense"),
    model_errors.ArtifactError: ProblemType(503, "artifact", "A saved model cannot be read", {"Retry-After": "30"}),
    model_errors.StoppedError: ProblemType(409, "stopped", "The training was told to stop"),
    model_errors.MissingDataError: ProblemType(422, "missing-data", "A public data set is not there"),
    app_errors.UnknownBudgetError: ProblemType(409, "no-budget", "The ensemble has no query budget"),
    app_errors.ReservationError: ProblemType(409, "reservation", "The reserved queries are gone"),
    app_errors.LedgerUnavailableError: ProblemType(503, "ledger", "The ledger did not answer", RETRY_SOON),
    app_errors.DeadlineError: ProblemType(504, "deadline", "The deadline has passed"),
    app_errors.NotFoundError: ProblemType(404, "not-found", "Not found"),
    app_errors.EndpointError: ProblemType(403, "endpoint", "The endpoint may not be called"),
    app_errors.AuthenticationError: ProblemType(401, "key", "A valid key is needed", {"WWW-Authenticate": "Bearer"}),
    app_errors.ForbiddenError: ProblemType(403, "role", "The key's role does not allow this"),
    app_errors.LostLeaseError: ProblemType(409, "lost-lease", "Another worker holds the job by now"),
    app_errors.ConflictError: ProblemType(409, "conflict", "The present state does not allow this"),
    app_errors.InFlightError: ProblemType(409, "in-flight", "The same request is being answered", RETRY_SOON),
    app_errors.ReusedKeyError: ProblemType(422, "reused-key", "The idempotency key belongs to another body"),
    app_errors.CursorError: ProblemType(422, "cursor", "The cursor is not valid"),
    # Whoever is still sending is cut off, rather than read to the end.
    app_errors.TooLargeError: ProblemType(413, "too-large", "The request is too large", {"Connection": "close"}),
    app_errors.MediaTypeError: ProblemType(415, "media-type", "The body's type is not supported"),
    app_errors.OverloadedError: ProblemType(503, "overloaded", "The service is busy", RETRY_SOON),
    app_errors.UnavailableError: ProblemType(503, "unavailable", "Part of the service is unavailable", RETRY_SOON),
    app_errors.StorageFullError: ProblemType(507, "storage-full", "No space is left"),
    app_errors.ServiceError: ProblemType(502, "service", "Another service did not answer"),
}

INTERNAL = ProblemType(500, "internal", "Something went wrong inside")
INVALID = ProblemType(422, "validation", "The request has invalid fields")
MALFORMED = ProblemType(400, "malformed", "The request's body cannot be read")
FRAMEWORK = {
    400: MALFORMED,
    401: PROBLEMS[app_errors.AuthenticationError],
    403: PROBLEMS[app_errors.ForbiddenError],
    404: ProblemType(404, "not-found", "Not found"),
    405: ProblemType(405, "method", "The method is not allowed here"),
    406: ProblemType(406, "not-acceptable", "This form of the answer is not available"),
    413: PROBLEMS[app_errors.TooLargeError],
    415: PROBLEMS[app_errors.MediaTypeError],
}
NO_SPACE = "no space is left where the service keeps its files: ask the operator for more, then send this again"
DATABASE_AWAY = (OperationalError, InterfaceError, PoolTimeoutError)


def type_of(error: RecourseError) -> ProblemType:
    """The row of the error, or that of its nearest ancestor."""
    return next(PROBLEMS[ancestor] for ancestor in type(error).__mro__ if ancestor in PROBLEMS)


def answer(
    request_id: str,
    problem: ProblemType,
    detail: str,
    errors: Sequence[Mapping[str, str]] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """The problem as a response; `instance` is the id under which the logs tell more."""
    body: dict[str, object] = {
        "type": f"/problems/{problem.slug}",
        "title": problem.title,
        "status": problem.status,
        "detail": detail,
        "instance": request_id,
    }
    if errors:
        body["errors"] = list(errors)
    return JSONResponse(body, problem.status, {**problem.headers, **(headers or {})}, media_type=MEDIA_TYPE)


def answer_error(request_id: str, error: Exception) -> JSONResponse:
    """The answer to any error; one that is our own fault tells nothing about the inside."""
    if isinstance(error, RecourseError):
        return answer(request_id, type_of(error), str(error))
    if storage_is_full(error):
        return answer(request_id, PROBLEMS[app_errors.StorageFullError], NO_SPACE)
    if isinstance(error, DATABASE_AWAY):
        return answer(request_id, PROBLEMS[app_errors.UnavailableError], "the database did not answer: try again soon")
    return answer(request_id, INTERNAL, f"the service failed; its log tells more under the request id {request_id}")


def install_problems(app: FastAPI) -> None:
    """Answer every error of a handler or of the framework as a problem; the rest is caught by the request log."""
    app.add_exception_handler(HTTPException, _from_framework)
    app.add_exception_handler(RequestValidationError, _from_validation)
    for error in (RecourseError, *DATABASE_AWAY):
        app.add_exception_handler(error, from_error)


def from_error(request: Request, error: Exception) -> JSONResponse:
    """The answer to a caller; what is refused is counted for the dashboard."""
    principal, refusals = request.scope.get("principal"), getattr(request.app.state, "refusals", None)
    if isinstance(error, RecourseError) and isinstance(principal, Principal) and isinstance(refusals, Refusals):
        problem = type_of(error)
        refusals.count(principal.tenant_id, problem.slug, problem.title)
    return answer_error(request_id_of(request), error)


def _from_framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 400 and storage_is_full(error):
        # The framework takes whatever happens while it reads a form for the form's fault.
        return answer_error(request_id_of(request), app_errors.StorageFullError(NO_SPACE))
    problem = FRAMEWORK.get(error.status_code) or ProblemType(error.status_code, "http", "The request was refused")
    headers = error.headers
    if error.status_code == 405 and (allowed := _allowed(request)):
        headers = {"Allow": allowed}
    return answer(request_id_of(request), problem, f"{error.detail}", headers=headers)


def _allowed(request: Request) -> str:
    """The methods of every route at this path; the framework names those of the first only."""
    at_path = {
        method
        for route in request.app.state.routes
        if route.path_regex.match(request.url.path)
        for method in route.methods
    }
    return ", ".join(sorted(at_path))


def _from_validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    broken = next((one for one in found if one["type"] == "json_invalid"), None)
    if broken is not None:
        detail = f"the body is not JSON: {broken['ctx']['error']}"
        return answer(request_id_of(request), MALFORMED, detail)
    fields = [{"field": _field_name(one["loc"]), "message": one["msg"]} for one in found[:MOST_FIELDS]]
    detail = "; ".join(f"{one['field']}: {one['message']}" for one in fields[:3])
    return answer(request_id_of(request), INVALID, detail, fields)


def _field_name(location: Sequence[object]) -> str:
    """("body", "records", 0, "age") -> records.0.age; a parameter keeps its own name."""
    return (".".join(str(part) for part in location[1:]) or str(location[0]))[:LONGEST_NAME]


REFERENCE = "#/components/schemas/Problem"


class FieldError(BaseModel):
    """One field that is wrong."""

    field: str = Field(examples=["records.0.age"])
    message: str = Field(examples=["Input should be a valid number"])


class Problem(BaseModel):
    """An error: `type` never changes, `detail` is one sentence for a person, `instance` is the request's id."""

    type: str = Field(examples=["/problems/not-found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["there is no model 'loans': see GET /models"])
    instance: str = Field(examples=["5f0c2d7e9b1a4c55a0d3f5f5b8a7e6d1"])
    errors: list[FieldError] = Field(default_factory=list, description="The fields that are wrong, if any.")


MEANINGS = {
    400: "The body or the request cannot be read.",
    401: "No key, or one that is unknown or revoked.",
    403: "The key's role, or the operator, does not allow it.",
    404: "No such name or id, or it belongs to another tenant.",
    406: "This form of the answer is not available.",
    409: "The present state does not allow it.",
    413: "The body, the table or the list is too large.",
    415: "The body's type or encoding is not read.",
    422: "A field, or what the fields say together, is wrong.",
    429: "The query budget does not allow it.",
    500: "Something went wrong inside.",
    502: "The lender's models did not answer.",
    503: "Part of the service is unavailable or busy: retry after Retry-After.",
    504: "The deadline has passed.",
    507: "No space is left where the service keeps its files.",
}
ALWAYS = (401, 403, 422, 500, 503)
WITH_BODY = (400, 413, 415, 507)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may answer so, besides what every route may answer."""
    content = {MEDIA_TYPE: {"schema": {"$ref": REFERENCE}}}
    return {status: {"description": MEANINGS[status], "content": content} for status in sorted({*ALWAYS, *statuses})}


class Refusals:
    """Of one process; a service of several API processes has several of these."""

    def __init__(self) -> None:
        self.since: datetime = utc_now()
        self._counts: Counter[tuple[int, str, str]] = Counter()
        self._lock = Lock()

    def count(self, tenant_id: int, slug: str, title: str) -> None:
        with self._lock:
            self._counts[tenant_id, slug, title] += 1

    def of(self, tenant_id: int) -> list[tuple[str, str, int]]:
        """(the problem's slug, its title, how often), the most frequent first."""
        with self._lock:
            found = [(slug, title, count) for (owner, slug, title), count in self._counts.items() if owner == tenant_id]
        return sorted(found, key=lambda one: (-one[2], one[0]))
