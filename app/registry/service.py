"""Models: which versions there are, and which of them answers.

The version that answers under a model's name, and the one that did the last time.

Nearly always they are the same: a search begins with the last one, and its decision records are written only if it is
still the active one (app/services/decisions.py).
"""

from dataclasses import dataclass

from anyio import to_thread
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


def activate(database: Database, tenant_id: int, name: str, number: int) -> AnyRow:
    """The model after the switch; requests that have begun keep the version that they began with."""
    with database.writing() as connection:
        find_model(connection, tenant_id, name)
        if not queries.activate_version(connection, tenant_id, name, number):
            raise NotFoundError(f"model {name!r} has no version {number}: see GET /models/{name}")
        return find_model(connection, tenant_id, name)


def find_model(connection: Connection, tenant_id: int, name: str) -> AnyRow:
    """The model's row and `active_version`; NotFoundError if the tenant has no such model."""
    return found(queries.find_model(connection, tenant_id, name), f"model {name!r}: see GET /models")


MOST_NAMES = 10_000


class ActiveVersions:
    """Reads the database, and remembers what it read. It is used on one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last: dict[tuple[int, str], AnyRow] = {}

    def last(self, tenant_id: int, name: str) -> AnyRow | None:
        """The version of the last time, as far as it is remembered."""
        return self._last.get((tenant_id, name))

    async def look_up(self, tenant_id: int, name: str) -> AnyRow:
        """version_id, number and model, as they are now; NotFoundError if nothing was trained under the name."""
        active = await to_thread.run_sync(self._read, tenant_id, name)
        if active is None:
            self._last.pop((tenant_id, name), None)
            raise NotFoundError(f"there is no trained model '{name}': see GET /models")
        if len(self._last) >= MOST_NAMES:
            self._last.clear()
        self._last[tenant_id, name] = active
        return active

    def _read(self, tenant_id: int, name: str) -> AnyRow | None:
        with self._database.reading() as connection:
            return queries.find_active(connection, tenant_id, name)
