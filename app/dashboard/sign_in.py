"""/sign-in and /sign-out. A key is exchanged for a session; other sites can neither sign people in nor out."""

from typing import Annotated
from urllib.parse import urlsplit

from anyio import to_thread
from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from app.api.dependencies import ResourcesDep
from app.dashboard.page_route import SEE_OTHER
from app.dashboard.rendering import render
from app.errors import AuthenticationError, ForbiddenError
from app.ledger.ledger import utc_now
from app.services import sessions

router = APIRouter(include_in_schema=False)
REFUSED = 401


@router.get("/sign-in")
async def form(target: Annotated[str, Query(alias="next", max_length=500)] = "/") -> Response:
    return render("sign_in.html", {"next": _own_path(target), "message": None})


@router.post("/sign-in")
async def sign_in(
    request: Request,
    resources: ResourcesDep,
    key: Annotated[str, Form(max_length=1000)] = "",
    target: Annotated[str, Form(alias="next", max_length=500)] = "/",
) -> Response:
    """The key's session as a cookie that scripts cannot read and other sites cannot send.

    Behind a proxy that has the TLS only the browser knows that there is any: it names the page that the form is on.
    """
    _check_origin(request)
    try:
        principal = await to_thread.run_sync(resources.keys.look_up, key.strip())
    except AuthenticationError:
        message = "This key is unknown or was revoked. Ask an admin for a new one."
        return render("sign_in.html", {"next": _own_path(target), "message": message}, REFUSED)
    answer = RedirectResponse(_own_path(target), SEE_OTHER)
    answer.set_cookie(
        sessions.COOKIE,
        sessions.begin(resources.keyring, principal, utc_now()),
        max_age=int(sessions.LIFETIME.total_seconds()),
        httponly=True,
        samesite="strict",
        secure="https" in (request.url.scheme, urlsplit(request.headers.get("Origin", "")).scheme),
    )
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, resources: ResourcesDep) -> Response:
    """The session ends here as well as in this browser."""
    _check_origin(request)
    if cookie := request.cookies.get(sessions.COOKIE):
        await to_thread.run_sync(sessions.end, resources.database, resources.keyring, cookie)
    answer = RedirectResponse("/sign-in", SEE_OTHER)
    answer.delete_cookie(sessions.COOKIE, httponly=True, samesite="strict")
    return answer


def _check_origin(request: Request) -> None:
    """Browsers name the page that a form came from."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("Host"):
        raise ForbiddenError(f"the form came from {origin[:100]}, not from this service: open /sign-in here")


def _own_path(target: str) -> str:
    """A path of ours; anything that a browser could take for another host becomes the first page."""
    safe = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if safe else "/"
