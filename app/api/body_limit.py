"""The largest body, before it is read and while it is; compressed ones are not opened at all."""

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import MediaTypeError, TooLargeError
from app.problems import answer_error
from models.errors import RecourseError

UPLOADS = frozenset({"/datasets"})


class BodyLimit:
    """Uploads may be larger than other bodies."""

    def __init__(self, app: ASGIApp, body_bytes: int, upload_bytes: int) -> None:
        self._app = app
        self._body_bytes = body_bytes
        self._upload_bytes = upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._upload_bytes if scope["path"] in UPLOADS else self._body_bytes
        refusal = _refusal(Headers(scope=scope), limit)
        if refusal is not None:
            await answer_error(str(scope.get("request_id", "")), refusal)(scope, receive, send)
            return
        await self._app(scope, _counted(receive, limit), send)


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
