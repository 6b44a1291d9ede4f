"""Around every request: its id, its line in the log, its time in the metrics, its largest body, the net for errors.

A body that is too large is refused before it is read and while it is; compressed ones are not opened at all.
"""

import re
import time
from uuid import uuid4

import structlog
from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import answer_error
from app.auth.principals import Principal
from app.errors import MediaTypeError, TooLargeError
from app.metrics import Metrics
from models.errors import RecourseError

UPLOADS = frozenset({"/datasets"})
RECORDS = ("/explain", "/v1/models/", "/ensembles")
"""Only bodies with records or a schema may have up to `max_body_bytes`."""
DOORS = frozenset({"/sign-in", "/sign-out"})
OTHER_BYTES, DOOR_BYTES = 2**20, 2**14


class BodyLimit:
    """Limits the size of a body by its route: a key is small, and whoever signs in is not known yet."""

    def __init__(self, app: ASGIApp, body_bytes: int, upload_bytes: int) -> None:
        self._app = app
        self._body_bytes = body_bytes
        self._upload_bytes = upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope["path"])
        refusal = _refusal(Headers(scope=scope), limit)
        if refusal is not None:
            await answer_error(str(scope.get("request_id", "")), refusal)(scope, receive, send)
            return
        await self._app(scope, _counted(receive, limit), send)

    def _limit(self, path: str) -> int:
        if path in UPLOADS:
            return self._upload_bytes
        if path.startswith(RECORDS):
            return self._body_bytes
        return min(self._body_bytes, DOOR_BYTES if path in DOORS else OTHER_BYTES)


def _refusal(headers: Headers, limit: int) -> RecourseError | None:
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        return MediaTypeError(f"the body's encoding is {encoding[:40]!r}, which is not opened: send it as it is")
    announced = headers.get("Content-Length", "0")
    if announced.isdigit() and int(announced) > limit:
        return TooLargeError(_too_large(announced, limit))
    return None


def _counted(receive: Receive, limit: int) -> Receive:
    """`receive` that stops a body without an announced length when it passes the limit."""
    seen = 0

    async def count() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            # FastAPI lets only its own exception pass while it reads a body.
            raise HTTPException(413, _too_large(f"more than {limit}", limit))
        return message

    return count


def _too_large(size: str, limit: int) -> str:
    return f"the body has {size} bytes, but {limit} is the limit: send less at a time"


SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")
QUIET = frozenset({"/livez", "/readyz", "/v2/health/live", "/v2/health/ready", "/metrics"})
HUNG_UP = 499
"""How requests are counted that ended before they were whole; others use it for that as well."""
logger = structlog.get_logger("recourse.request")


class RequestLog:
    """Pure ASGI, so that streams stay streams and the hot path stays short."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope["request_id"] = request_id
        began = time.perf_counter()
        status = 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                if "principal" in scope:
                    # Records, keys and figures are for who asked, not for what lies between.
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except ClientDisconnect:
            status = HUNG_UP
        # The outermost place: whatever nobody answered for is logged here and told as a problem.
        except Exception as error:
            logger.error("failed", request_id=request_id, path=_template(scope), exc_info=error)
            if status:
                raise
            await answer_error(request_id, error)(scope, receive, send_on)
        finally:
            self._tell(scope, request_id, status, time.perf_counter() - began)

    def _tell(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        path = _template(scope)
        self._metrics.observe_request(scope["method"], path, status, seconds)
        principal = scope.get("principal")
        tenant = principal.tenant_id if isinstance(principal, Principal) else None
        log = logger.debug if path in QUIET else logger.info
        log(
            "request",
            method=scope["method"],
            path=path,
            status=status,
            ms=round(seconds * 1000, 2),
            tenant=tenant,
            request_id=request_id,
        )


def _request_id(scope: Scope) -> str:
    """The caller's own id if it is a sane one, else a new one."""
    given = Headers(scope=scope).get("X-Request-ID", "")
    return given if SANE_ID.fullmatch(given) else uuid4().hex


def _template(scope: Scope) -> str:
    """The route's path with names for its values: a path itself could hold anything, and be without end."""
    return str(getattr(scope.get("route"), "path", "unknown"))
