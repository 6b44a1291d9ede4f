"""The dashboard's pages, /sign-in and /sign-out; what changes on a page its script fetches from the JSON API.

A page and the JSON beside it share an address: its route comes first, and matches only requests for HTML.
Signing in exchanges a key for a session; other sites can neither sign people in nor out.
"""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import quote, urlsplit
from uuid import UUID

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Scope

from app.api.dependencies import Caller, DatabaseDep, LedgerDep, ResourcesDep, authenticate
from app.api.problems import Refusals
from app.auth import principals
from app.auth.principals import RANK, Guesses
from app.dashboard import figures, rendering
from app.dashboard.rendering import render
from app.db.paging import MOST_ITEMS, PageOrder
from app.db.tables import Role, utc_now
from app.ensembles.service import list_budgets
from app.errors import AuthenticationError, ForbiddenError, NotFoundError
from app.explain import decisions

SEE_OTHER = 303


class PageRoute(APIRoute):
    """Matches only requests for HTML; shows the door to those who are not signed in."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("Accept", ""):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            try:
                await authenticate(request)
            except AuthenticationError:
                return RedirectResponse(f"/sign-in?next={quote(request.url.path)}", SEE_OTHER)
            return await handle(request)

        return checked


router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGES = (("/", "Budgets"), ("/explain", "Explain"), ("/models", "Models"), ("/jobs", "Jobs"), ("/keys", "Keys"))


async def _frame(request: Request, caller: Caller, resources: ResourcesDep) -> dict[str, object]:
    """What every page shows: where one is, and as whom."""
    cookie = request.cookies.get(principals.COOKIE, "")
    admin, rank = caller.role is Role.ADMIN, RANK[caller.role]
    return {
        "path": request.url.path,
        "pages": [page for page in PAGES if admin or page[0] != "/keys"],
        "role": caller.role.value,
        "may_write": rank >= RANK[Role.CLIENT],
        "may_train": rank >= RANK[Role.ANALYST],
        "admin": admin,
        "csrf": principals.csrf_token(resources.keyring, cookie) if cookie else "",
    }


Frame = Annotated[dict[str, object], Depends(_frame)]


@router.get("/")
def budgets(frame: Frame, caller: Caller, database: DatabaseDep, ledger: LedgerDep) -> Response:
    found, _ = list_budgets(database, ledger, caller.tenant_id, PageOrder(MOST_ITEMS))
    shown = [{"ensemble": one.ensemble, "balance": one.balance} for one in found]
    return render("budgets.html", {**frame, "budgets": shown})


@router.get("/explain")
def explain(frame: Frame) -> Response:
    return render("explain.html", frame)


@router.get("/models")
def models(frame: Frame) -> Response:
    return render("models.html", frame)


@router.get("/jobs")
def jobs(frame: Frame) -> Response:
    return render("jobs.html", frame)


@router.get("/keys")
def keys(frame: Frame) -> Response:
    if not frame["admin"]:
        told = {"title": "Not with this key", "message": "Only an admin key may see and make keys."}
        return render("refused.html", {**frame, **told}, 403)
    return render("keys.html", frame)


@router.get("/explanations/{explanation_id}")
def explanation(explanation_id: UUID, frame: Frame, caller: Caller, database: DatabaseDep) -> Response:
    """The decision record, to read and to print."""
    try:
        row = decisions.find_explanation(database, caller.tenant_id, explanation_id)
    except NotFoundError:
        told = {"title": "No such record", "message": f"There is no decision record {explanation_id} among yours."}
        return render("refused.html", {**frame, **told}, 404)
    return render("explanation.html", {**frame, "decision": row})


def install_dashboard(app: FastAPI) -> None:
    app.state.refusals, app.state.guesses = Refusals(), Guesses()
    rendering.mount_assets(app)
    for part in (router, sign_in_router, figures.router):
        app.include_router(part)
    # Who uses a wrong method is told the right ones; not those of pages, which stand beside a call of the API.
    app.state.routes += [route for part in (sign_in_router, figures.router) for route in part.routes]


sign_in_router = APIRouter(include_in_schema=False)
REFUSED, TOO_MANY = 401, 429


@sign_in_router.get("/sign-in")
async def form(target: Annotated[str, Query(alias="next", max_length=500)] = "/") -> Response:
    return render("sign_in.html", {"next": _own_path(target), "message": None})


@sign_in_router.post("/sign-in")
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
    guesses: Guesses = request.app.state.guesses
    device, address = request.cookies.get(principals.DEVICE_COOKIE, ""), request.client.host if request.client else ""
    place, known = principals.place_of(resources.keyring, device, address)
    if seconds := guesses.wait(place, known):
        message = f"Too many wrong keys were tried. Try again in {seconds} seconds."
        refusal = render("sign_in.html", {"next": _own_path(target), "message": message}, TOO_MANY)
        refusal.headers["Retry-After"] = str(seconds)
        return refusal
    # It counts as wrong until it is found to be right: guesses that come at once are all counted.
    guesses.count(place)
    try:
        principal = await to_thread.run_sync(resources.keys.look_up, key.strip())
        guesses.take_back(place)
    except AuthenticationError:
        message = "This key is unknown or was revoked. Ask an admin for a new one."
        return render("sign_in.html", {"next": _own_path(target), "message": message}, REFUSED)
    answer = RedirectResponse(_own_path(target), SEE_OTHER)
    secure = "https" in (request.url.scheme, urlsplit(request.headers.get("Origin", "")).scheme)
    session = principals.begin_session(resources.keyring, principal, utc_now())
    device = principals.remember_device(resources.keyring, principal)
    for name, value, lifetime in (
        (principals.COOKIE, session, principals.LIFETIME),
        (principals.DEVICE_COOKIE, device, principals.DEVICE_LIFETIME),
    ):
        seconds = int(lifetime.total_seconds())
        answer.set_cookie(name, value, max_age=seconds, httponly=True, samesite="strict", secure=secure)
    return answer


@sign_in_router.post("/sign-out")
async def sign_out(request: Request, resources: ResourcesDep) -> Response:
    """The session ends here as well as in this browser."""
    _check_origin(request)
    if cookie := request.cookies.get(principals.COOKIE):
        await to_thread.run_sync(principals.end_cookie_session, resources.database, resources.keyring, cookie)
    answer = RedirectResponse("/sign-in", SEE_OTHER)
    answer.delete_cookie(principals.COOKIE, httponly=True, samesite="strict")
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
