"""Models: which versions there are, and which of them answers."""

from dataclasses import dataclass

from sqlalchemy import Connection

from app.db.engine import Database
from app.db.paging import PageOrder, RowPage, found
from app.db.tables import AnyRow
from app.errors import NotFoundError
from app.registry import queries


@dataclass(frozen=True, slots=True)
class ModelPage:
    """A model and a page of its versions, the newest first."""

    model: AnyRow
    versions: RowPage


def show_model(database: Database, tenant_id: int, name: str, order: PageOrder) -> ModelPage:
    with database.reading() as connection:
        model = find_model(connection, tenant_id, name)
        return ModelPage(model, queries.versions_page(connection, tenant_id, model.id, order))


def activate(connection: Connection, tenant_id: int, name: str, number: int) -> AnyRow:
    """The model after the switch; requests that have begun keep the version that they began with."""
    find_model(connection, tenant_id, name)
    if not queries.activate_version(connection, tenant_id, name, number):
        raise NotFoundError(f"model {name!r} has no version {number}: see GET /models/{name}")
    return find_model(connection, tenant_id, name)


def find_model(connection: Connection, tenant_id: int, name: str) -> AnyRow:
    """The model's row and `active_version`; NotFoundError if the tenant has no such model."""
    return found(queries.find_model(connection, tenant_id, name), f"model {name!r}: see GET /models")
