"""/models: versions, and which of them answers."""

from fastapi import APIRouter

from app.api.dependencies import Caller, ClientCaller, DatabaseDep, KeyedRoute
from app.schemas.fields import NameInPath
from app.schemas.models import ActivateBody, ModelAnswer, ModelDetail, VersionAnswer
from app.schemas.paging import Page, PageQuery
from app.schemas.problem import WITH_BODY, problems
from app.services import models

router = APIRouter(prefix="/models", tags=["models"], route_class=KeyedRoute)


@router.get("", operation_id="list_models", responses=problems())
def page(order: PageQuery, caller: Caller, database: DatabaseDep) -> Page[ModelAnswer]:
    """The models, newest first."""
    found = models.list_models(database, caller.tenant_id, order)
    return Page(items=[ModelAnswer.model_validate(row) for row in found.rows], next=found.next)


@router.get("/{name}", operation_id="show_model", responses=problems(404))
def show(name: NameInPath, order: PageQuery, caller: Caller, database: DatabaseDep) -> ModelDetail:
    """A model and a page of its versions, with metrics and the cost-validity frontier."""
    found = models.show_model(database, caller.tenant_id, name, order)
    head = ModelAnswer.model_validate(found.model).model_dump()
    shown = [VersionAnswer.model_validate(row) for row in found.versions.rows]
    return ModelDetail(**head, versions=shown, next=found.versions.next)


@router.post("/{name}/activate", operation_id="activate_version", responses=problems(*WITH_BODY, 404))
def activate(name: NameInPath, body: ActivateBody, caller: ClientCaller, database: DatabaseDep) -> ModelAnswer:
    """Let another version answer: a newer one, or an older one to roll back."""
    return ModelAnswer.model_validate(models.activate(database, caller.tenant_id, name, body.version))
