"""The pages: the frame comes from here, what moves is fetched by their scripts from the JSON API."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from app.api.dependencies import RANK, Caller, DatabaseDep, LedgerDep, ResourcesDep
from app.dashboard.page_route import PageRoute
from app.dashboard.rendering import render
from app.db.service_tables import Role
from app.errors import NotFoundError
from app.services import explanations, sessions
from app.services.budgets import list_budgets
from app.services.paging import MOST_ITEMS, PageOrder

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGES = (("/", "Budgets"), ("/explain", "Explain"), ("/models", "Models"), ("/jobs", "Jobs"), ("/keys", "Keys"))


async def _frame(request: Request, caller: Caller, resources: ResourcesDep) -> dict[str, object]:
    """What every page shows: where one is, and as whom."""
    cookie = request.cookies.get(sessions.COOKIE, "")
    admin, rank = caller.role is Role.ADMIN, RANK[caller.role]
    return {
        "path": request.url.path,
        "pages": [page for page in PAGES if admin or page[0] != "/keys"],
        "role": caller.role.value,
        "may_write": rank >= RANK[Role.CLIENT],
        "admin": admin,
        "csrf": sessions.csrf_token(resources.keyring, cookie) if cookie else "",
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
        row = explanations.find_explanation(database, caller.tenant_id, explanation_id)
    except NotFoundError:
        told = {"title": "No such record", "message": f"There is no decision record {explanation_id} among yours."}
        return render("refused.html", {**frame, **told}, 404)
    return render("explanation.html", {**frame, "decision": row})
