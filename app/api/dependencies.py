"""What handlers ask for: who is calling, and the parts of the service."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from app.api.strict_json import StrictRequest
from app.artifacts import ArtifactStore
from app.db.engine import Database
from app.db.service_tables import Role
from app.errors import AuthenticationError, ForbiddenError
from app.explaining.protocol import Explainer
from app.ledger.ledger import Ledger, utc_now
from app.metrics import Metrics
from app.resources import Resources
from app.services import sessions
from app.services.idempotency import KeyedBody
from app.services.key_cache import Principal
from app.settings import Settings
from app.training.protocol import TrainingQueue

RANK = {Role.VIEWER: 0, Role.CLIENT: 1, Role.ADMIN: 2}
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
        keyring, cookie = resources_of(request).keyring, request.cookies[sessions.COOKIE]
        sessions.check_csrf(keyring, cookie, request.headers.get(sessions.CSRF_HEADER, ""))
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
        return sessions.resume(resources.database, resources.keyring, request.cookies[sessions.COOKIE], utc_now())
    key = _sent_key(request)
    if not key:
        raise AuthenticationError("no key was sent: add the header 'Authorization: Bearer rk_...'")
    return resources.keys.look_up(key)


def _has_session(request: Request) -> bool:
    return "Authorization" not in request.headers and sessions.COOKIE in request.cookies


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


async def _settings(request: Request) -> Settings:
    return resources_of(request).settings


async def _resources(request: Request) -> Resources:
    return resources_of(request)


async def _database(request: Request) -> Database:
    return resources_of(request).database


async def _ledger(request: Request) -> Ledger:
    return resources_of(request).ledger


async def _explainer(request: Request) -> Explainer:
    return resources_of(request).explainer


async def _queue(request: Request) -> TrainingQueue:
    return resources_of(request).queue


async def _artifacts(request: Request) -> ArtifactStore:
    return resources_of(request).artifacts


async def _metrics(request: Request) -> Metrics:
    metrics = request.app.state.metrics
    assert isinstance(metrics, Metrics)
    return metrics


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
SettingsDep = Annotated[Settings, Depends(_settings)]
DatabaseDep = Annotated[Database, Depends(_database)]
LedgerDep = Annotated[Ledger, Depends(_ledger)]
ExplainerDep = Annotated[Explainer, Depends(_explainer)]
QueueDep = Annotated[TrainingQueue, Depends(_queue)]
ArtifactsDep = Annotated[ArtifactStore, Depends(_artifacts)]
MetricsDep = Annotated[Metrics, Depends(_metrics)]
IdempotencyKey = Annotated[KeyedBody | None, Depends(_keyed_body)]
