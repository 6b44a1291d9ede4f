"""Models: which versions there are, and which of them answers."""

from dataclasses import dataclass

from app.db import models
from app.db.engine import Database
from app.db.types import AnyRow
from app.errors import NotFoundError
from app.services.paging import PageOrder, RowPage, cut, write_number


@dataclass(frozen=True, slots=True)
class ModelPage:
    """A model and a page of its versions, the newest first."""

    model: AnyRow
    versions: RowPage


def list_models(database: Database, tenant_id: int, order: PageOrder) -> RowPage:
    with database.reading() as connection:
        return cut(models.page(connection, tenant_id, order.after, order.limit + 1), order.limit)


def show_model(database: Database, tenant_id: int, name: str, order: PageOrder) -> ModelPage:
    below = None if order.cursor is None else order.after_number
    with database.reading() as connection:
        model = models.find(connection, tenant_id, name)
        if model is None:
            raise _unknown(name)
        found = models.versions(connection, tenant_id, model.id, below, order.limit + 1)
    shown = found[: order.limit]
    following = write_number(shown[-1].number) if len(found) > order.limit else None
    return ModelPage(model, RowPage(shown, following))


def activate(database: Database, tenant_id: int, name: str, number: int) -> AnyRow:
    """The model after the switch; requests that have begun keep the version that they began with."""
    with database.writing() as connection:
        if models.find(connection, tenant_id, name) is None:
            raise _unknown(name)
        if not models.activate(connection, tenant_id, name, number):
            raise NotFoundError(f"model {name!r} has no version {number}: see GET /models/{name}")
        model = models.find(connection, tenant_id, name)
    assert model is not None
    return model


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"there is no model {name!r}: see GET /models")
