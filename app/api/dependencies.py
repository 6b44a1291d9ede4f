"""What handlers ask for: the caller, the parts of the service, a page of a list, a live stream.

A `KeyedRoute` looks at the caller's key and role before it reads a body, and reads JSON strictly. Bodies are read and
checked before a handler runs; what is wrong with them becomes a problem in app/api/problems.py.
"""

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from typing import Annotated, Any, Generic, Self, TypeVar

from anyio import to_thread
from fastapi import Depends, Header, HTTPException, Query, Request, Response, params
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field
from pydantic_core import from_json
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette._utils import AwaitableOrContextManager
from starlette.datastructures import FormData
from starlette.types import Receive, Scope, Send

from app.auth import principals
from app.auth.principals import RANK, Principal
from app.concurrency import StillAuthorised, StreamLimit, ThreadShare
from app.db.engine import Database
from app.db.paging import DEFAULT_LIMIT, MOST_ITEMS, PageOrder, RowPage
from app.db.tables import Role, utc_now
from app.errors import AuthenticationError, ForbiddenError, MediaTypeError
from app.idempotency import REPLAYED, KeyedBody, StoredReply
from app.ledger.ledger import Ledger
from app.metrics import Metrics
from app.resources import Resources

BEARER = HTTPBearer(auto_error=False, scheme_name="key", description="An API key: rk_...")


def resources_of(request: Request) -> Resources:
    resources = request.app.state.resources
    assert isinstance(resources, Resources)
    return resources


def request_id_of(request: Request) -> str:
    """As the answer's header and the log have it (`RequestLog`)."""
    return str(request.scope.get("request_id", ""))


async def authenticate(request: Request) -> Principal:
    """The holder of the key in the Authorization header or of the dashboard's session; else AuthenticationError."""
    known = request.scope.get("principal")
    if isinstance(known, Principal):
        return known
    principal = remembered(request)
    if principal is None:
        principal = await to_thread.run_sync(identify, request)
    if _has_session(request) and request.method not in ("GET", "HEAD"):
        # What changes something must come from our own pages.
        keyring, cookie = resources_of(request).keyring, request.cookies[principals.COOKIE]
        principals.check_csrf(keyring, cookie, request.headers.get(principals.CSRF_HEADER, ""))
    request.scope["principal"] = principal
    return principal


def remembered(request: Request) -> Principal | None:
    """The holder of the key in the Authorization header if it was looked up lately; None too for a session."""
    key = _sent_key(request)
    return resources_of(request).keys.remembered(key) if key else None


def identify(request: Request) -> Principal:
    """The same as the database has it now: it blocks, and remembers nothing."""
    resources = resources_of(request)
    if _has_session(request):
        cookie = request.cookies[principals.COOKIE]
        principal = principals.resume_session(resources.database, resources.keyring, cookie, utc_now())
        resources.keys.note_use(principal.key_id)
        return principal
    key = _sent_key(request)
    if not key:
        raise AuthenticationError("no key was sent: add the header 'Authorization: Bearer rk_...'")
    return resources.keys.look_up(key)


def _has_session(request: Request) -> bool:
    return "Authorization" not in request.headers and principals.COOKIE in request.cookies


def _sent_key(request: Request) -> str:
    """The key in the Authorization header, or nothing."""
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


class KeyedRoute(APIRoute):
    """A route that looks at the key and its role before it reads the body: others are not read at all, these strictly.

    A handler that takes a thread takes it out of its tenant's share.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        needed = [part.call.role for part in self.dependant.dependencies if isinstance(part.call, _AtLeast)]
        form = any(isinstance(part.field_info, params.Form) for part in self.dependant.body_params)
        takes_json = bool(self.dependant.body_params) and not form
        in_thread = not iscoroutinefunction(self.endpoint)

        async def checked(request: Request) -> Response:
            principal = await authenticate(request)
            for role in needed:
                check_role(principal, role)
            if takes_json:
                _take_for_json(request)
            strict, resources = StrictRequest(request.scope, request.receive), resources_of(request)
            if form:
                with resources.uploads.place(principal.tenant_id):
                    return await handle(strict)
            # Whoever sends slowly holds no place meanwhile.
            await strict.body()
            async with resources.handler_room.place(principal.tenant_id) if in_thread else nullcontext():
                return await handle(strict)

        return checked


NO_TYPE = frozenset({"", "application/x-www-form-urlencoded", "application/octet-stream", "text/plain"})
"""What a program sends when it sets no type itself: curl calls every body a form."""


def _take_for_json(request: Request) -> None:
    """A body without a type is JSON; MediaTypeError for one of another type."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind in NO_TYPE:
        others = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
        request.scope["headers"] = [*others, (b"content-type", b"application/json")]
    elif not kind.startswith("application/") or kind.rpartition("+")[2] not in ("json", "application/json"):
        raise MediaTypeError(f"the body's type is {kind[:40]!r}: send JSON, with Content-Type: application/json")


# None of these is sync: FastAPI would start a thread for each.
async def _caller(request: Request, bearer: Annotated[object, Depends(BEARER)]) -> Principal:
    return await authenticate(request)


Caller = Annotated[Principal, Depends(_caller)]


def check_role(principal: Principal, least: Role) -> None:
    """ForbiddenError for a role below it."""
    if RANK[principal.role] < RANK[least]:
        raise ForbiddenError(f"the key's role is {principal.role}, but this needs {least}: use another key")


@dataclass(frozen=True)
class _AtLeast:
    """The dependency of a handler that needs this role; its route has checked that already (`KeyedRoute`)."""

    role: Role

    async def __call__(self, principal: Caller) -> Principal:
        check_role(principal, self.role)
        return principal


def part(name: str) -> Callable[[Request], Coroutine[Any, Any, object]]:
    """The dependency of a handler on one part of the service, by its name in `Resources`."""

    async def take(request: Request) -> object:
        return getattr(resources_of(request), name)

    return take


async def _resources(request: Request) -> Resources:
    return resources_of(request)


KeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="Any text of your choice; the same request under the same key is answered once.",
    ),
]


async def _keyed_body(request: Request, key: KeyHeader = None) -> KeyedBody | None:
    return None if key is None else KeyedBody.of(key, await request.body())


def replied(reply: StoredReply) -> Response:
    """The answer of a request that may have come under an idempotency key."""
    headers = {REPLAYED: "true"} if reply.replayed else None
    return Response(reply.body, reply.status, headers, media_type="application/json")


ClientCaller = Annotated[Principal, Depends(_AtLeast(Role.CLIENT))]
AnalystCaller = Annotated[Principal, Depends(_AtLeast(Role.ANALYST))]
AdminCaller = Annotated[Principal, Depends(_AtLeast(Role.ADMIN))]
ResourcesDep = Annotated[Resources, Depends(_resources)]
DatabaseDep = Annotated[Database, Depends(part("database"))]
LedgerDep = Annotated[Ledger, Depends(part("ledger"))]
MetricsDep = Annotated[Metrics, Depends(part("metrics"))]
IdempotencyKey = Annotated[KeyedBody | None, Depends(_keyed_body)]


QUICK_BYTES = 64 * 1024
"""A body up to this size is read within a few milliseconds: it needs no thread."""
MORE_VALUES = 100_000
"""Values that a body may hold beside those of its records."""
MOST_FORM_FIELDS, MOST_FIELD_BYTES = 600, 4_000


class StrictRequest(Request):
    """Reads JSON by its standard, without NaN and halves of characters: anything else is a 400.

    A body with too many values is refused before it is parsed; a large one is parsed in a thread.
    """

    async def json(self) -> object:
        body = await self.body()
        if len(body) <= QUICK_BYTES:
            return _parse(body)
        settings = resources_of(self).settings
        _check_values(body, settings.max_records * settings.max_dataset_columns + MORE_VALUES)
        return await to_thread.run_sync(_parse, body)

    def form(self, **limits: object) -> AwaitableOrContextManager[FormData]:
        """One file and the names of categories: whatever else a form holds is kept in memory while it is read."""
        return super().form(max_files=1, max_fields=MOST_FORM_FIELDS, max_part_size=MOST_FIELD_BYTES)


def _parse(body: bytes) -> object:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        # The one exception that FastAPI takes for a body that cannot be read.
        raise json.JSONDecodeError(str(error), "", 0) from error


def _check_values(body: bytes, most: int) -> None:
    """Each value stands behind a comma or a bracket; counting those of 16 MB takes 20 ms, reading them seconds."""
    values = sum(map(body.count, (b",", b"[", b"{")))
    if values > most:
        # FastAPI lets only its own exception pass while it reads a body.
        raise HTTPException(413, f"the body has about {values} values, but {most} is the limit: send less at a time")


class LiveStream(EventSourceResponse):
    """The events, or OverloadedError before the first of them."""

    def __init__(self, events: AsyncIterator[ServerSentEvent], limit: StreamLimit, tenant_id: int) -> None:
        super().__init__(events)
        self._limit = limit
        self._tenant_id = tenant_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._limit.place(self._tenant_id):
            await super().__call__(scope, receive, send)


class Download(StreamingResponse):
    """A file that is made in parts while it is sent; it counts as one of the tenant's streams."""

    def __init__(self, parts: Iterator[str], resources: Resources, tenant_id: int, media_type: str) -> None:
        super().__init__(self._made(parts), media_type=media_type)
        self._threads = resources.stream_threads.share(tenant_id)
        self._limit = resources.streams
        self._tenant_id = tenant_id

    async def _made(self, parts: Iterator[str]) -> AsyncIterator[str]:
        while (made := await self._threads.run(partial(next, parts, None))) is not None:
            yield made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._limit.place(self._tenant_id):
            await super().__call__(scope, receive, send)


def still_authorised(request: Request, threads: ThreadShare) -> StillAuthorised:
    """Asks again and again whether the request's key, or its session, still holds."""
    return StillAuthorised(partial(identify, request), threads)


Item = TypeVar("Item", bound=BaseModel)


class Page(BaseModel, Generic[Item]):
    """Items, newest first unless said otherwise, and the cursor of the next page."""

    items: list[Item]
    next: str | None = Field(description="Pass it as `cursor` for the next page; null at the end.")

    @classmethod
    def of(cls, page: RowPage) -> Self:
        return cls.model_validate({"items": page.rows, "next": page.next}, from_attributes=True)


async def _order(
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Items a page.")] = DEFAULT_LIMIT,
    cursor: Annotated[str | None, Query(max_length=200, description="`next` of the page before.")] = None,
) -> PageOrder:
    return PageOrder(limit, cursor)


PageQuery = Annotated[PageOrder, Depends(_order)]
