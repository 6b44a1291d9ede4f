"""What handlers ask for: the caller, the parts of the service, a page of a list, a live stream.

A `KeyedRoute` looks at the caller's key before it reads a body, and reads JSON strictly. Bodies are read and checked
before a handler runs; what is wrong with them becomes a problem in app/api/problems.py.
"""

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Annotated, Any, Generic, Self, TypeVar

from anyio import to_thread
from fastapi import Depends, Header, Query, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field
from pydantic_core import from_json
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from app.auth import principals
from app.auth.principals import RANK, Principal
from app.concurrency import StillAuthorised, StreamLimit
from app.db.engine import Database
from app.db.paging import DEFAULT_LIMIT, MOST_ITEMS, PageOrder, RowPage
from app.db.tables import Role, utc_now
from app.errors import AuthenticationError, ForbiddenError
from app.idempotency import KeyedBody
from app.ledger.ledger import Ledger
from app.metrics import Metrics
from app.resources import Resources

BEARER = HTTPBearer(auto_error=False, scheme_name="key", description="An API key: rk_...")


def resources_of(request: Request) -> Resources:
    resources = request.app.state.resources
    assert isinstance(resources, Resources)
    return resources


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
        return principals.resume_session(
            resources.database, resources.keyring, request.cookies[principals.COOKIE], utc_now()
        )
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
    """A route that looks at the key before it reads the body: a stranger's is not read at all, others strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            await authenticate(request)
            return await handle(StrictRequest(request.scope, request.receive))

        return checked


# None of these is sync: FastAPI would start a thread for each.
async def _caller(request: Request, bearer: Annotated[object, Depends(BEARER)]) -> Principal:
    return await authenticate(request)


Caller = Annotated[Principal, Depends(_caller)]


def _at_least(role: Role) -> Callable[[Principal], Coroutine[Any, Any, Principal]]:
    async def check(principal: Caller) -> Principal:
        if RANK[principal.role] < RANK[role]:
            raise ForbiddenError(f"the key's role is {principal.role}, but this needs {role}: use another key")
        return principal

    return check


def part(name: str) -> Callable[[Request], Coroutine[Any, Any, object]]:
    """The dependency of a handler on one part of the service, by its name in `Resources`."""

    async def take(request: Request) -> object:
        return getattr(resources_of(request), name)

    return take


async def _resources(request: Request) -> Resources:
    return resources_of(request)


async def _keyed_body(
    request: Request,
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=200,
            pattern=r"^[!-~]+$",
            description="Any text of your choice; the same request under the same key is answered once.",
        ),
    ] = None,
) -> KeyedBody | None:
    return None if key is None else KeyedBody.of(key, await request.body())


ClientCaller = Annotated[Principal, Depends(_at_least(Role.CLIENT))]
AdminCaller = Annotated[Principal, Depends(_at_least(Role.ADMIN))]
ResourcesDep = Annotated[Resources, Depends(_resources)]
DatabaseDep = Annotated[Database, Depends(part("database"))]
LedgerDep = Annotated[Ledger, Depends(part("ledger"))]
MetricsDep = Annotated[Metrics, Depends(part("metrics"))]
IdempotencyKey = Annotated[KeyedBody | None, Depends(_keyed_body)]


class StrictRequest(Request):
    """JSON as its standard has it, without NaN and halves of characters: whatever else becomes a 400."""

    async def json(self) -> object:
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            # The one exception that FastAPI takes for a body that cannot be read.
            raise json.JSONDecodeError(str(error), "", 0) from error


class LiveStream(EventSourceResponse):
    """The events, or OverloadedError before the first of them."""

    def __init__(self, events: AsyncIterator[ServerSentEvent], limit: StreamLimit, tenant_id: int) -> None:
        super().__init__(events)
        self._limit = limit
        self._tenant_id = tenant_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._limit.place(self._tenant_id):
            await super().__call__(scope, receive, send)


def still_authorised(request: Request) -> StillAuthorised:
    """Of the key or the session that the request came with."""
    return StillAuthorised(partial(identify, request))


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
