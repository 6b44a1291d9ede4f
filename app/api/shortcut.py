"""POST /explain without the framework in between, for the request that a loan system sends all day.

FastAPI's routing and dependencies take as long as all else that happens to such a request outside of the search
(benchmarks/NOTES.md). Whatever is unusual, a key that is not remembered, an idempotency key, a body of unknown length
or with a fault, goes on to the route in explain.py, which answers it and says what is wrong. The answers are the same.
"""

from fastapi import Request, Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.api.dependencies import StrictRequest, remembered, resources_of
from app.api.explain import ROUTE, answer
from app.auth.principals import RANK
from app.db.tables import Role
from app.explain.contract import ExplainBody
from models.errors import RecourseError

JSON = "application/json"


class ExplainShortcut:
    """Pure ASGI, behind the request log and the limit of bodies."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_usual(scope):
            await self._app(scope, receive, send)
            return
        seen: list[Message] = []

        async def keep() -> Message:
            seen.append(await receive())
            return seen[-1]

        async def again() -> Message:
            return seen.pop(0) if seen else await receive()

        body = await _read(StrictRequest(scope, keep))
        if body is None:
            await self._app(scope, again, send)
            return
        scope["route"] = ROUTE
        response = await _answer(Request(scope, receive), body)
        await response(scope, receive, send)


def _is_usual(scope: Scope) -> bool:
    """Whether it is a plain request of somebody who may ask; scope["principal"] says who."""
    if scope["type"] != "http" or scope["path"] != ROUTE.path or scope["method"] != "POST":
        return False
    headers = Headers(scope=scope)
    is_json = headers.get("Content-Type", "").partition(";")[0].strip().lower() == JSON
    if not is_json or "Content-Length" not in headers or "Idempotency-Key" in headers:
        return False
    principal = remembered(Request(scope))
    if principal is None or RANK[principal.role] < RANK[Role.CLIENT]:
        return False
    scope["principal"] = principal
    return True


async def _read(request: StrictRequest) -> ExplainBody | None:
    """The body; None where it cannot be read."""
    try:
        return ExplainBody.model_validate(await request.json())
    # Whatever is wrong, the framework meets it again, and has the words for it.
    except Exception:
        return None


async def _answer(request: Request, body: ExplainBody) -> Response:
    principal = request.scope["principal"]
    try:
        return await answer(request, resources_of(request), principal.tenant_id, None, body.to_request())
    except (RecourseError, *problems.DATABASE_AWAY) as error:
        return problems.from_error(request, error)
