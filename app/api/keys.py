"""/keys: admins only."""

from uuid import UUID

from fastapi import APIRouter

from app.api.dependencies import AdminCaller, DatabaseDep, KeyedRoute, ResourcesDep
from app.schemas.keys import KeyAnswer, KeyBody, NewKeyAnswer
from app.schemas.paging import Page, PageQuery
from app.schemas.problem import WITH_BODY, problems
from app.services import keys

router = APIRouter(prefix="/keys", tags=["keys"], route_class=KeyedRoute)


@router.post("", status_code=201, operation_id="make_key", responses=problems(*WITH_BODY))
def make(body: KeyBody, caller: AdminCaller, resources: ResourcesDep) -> NewKeyAnswer:
    """Make a key for the own tenant; it is shown once."""
    key, row = keys.make_key(resources, caller.tenant_id, body.name, body.role)
    return NewKeyAnswer(**KeyAnswer.model_validate(row).model_dump(), key=key.text)


@router.get("", operation_id="list_keys", responses=problems())
def page(order: PageQuery, caller: AdminCaller, database: DatabaseDep) -> Page[KeyAnswer]:
    """The own tenant's keys, revoked ones too."""
    found = keys.list_keys(database, caller.tenant_id, order)
    return Page(items=[KeyAnswer.model_validate(row) for row in found.rows], next=found.next)


@router.delete("/{key_id}", status_code=204, operation_id="revoke_key", responses=problems(404, 409))
def revoke(key_id: UUID, caller: AdminCaller, resources: ResourcesDep) -> None:
    """Revoke a key; other processes notice within RECOURSE_KEY_CACHE_SECONDS."""
    keys.revoke_key(resources, caller.tenant_id, key_id)
