"""The version that answers under a model's name, and the one that did the last time.

Nearly always they are the same: a search begins with the last one, and its decision records are written only if it is
still the active one (app/services/decisions.py).
"""

from anyio import to_thread

from app.db import serving
from app.db.engine import Database
from app.db.types import AnyRow
from app.errors import NotFoundError

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
        found = await to_thread.run_sync(self._read, tenant_id, name)
        if found is None:
            self._last.pop((tenant_id, name), None)
            raise NotFoundError(f"there is no trained model '{name}': see GET /models")
        if len(self._last) >= MOST_NAMES:
            self._last.clear()
        self._last[tenant_id, name] = found
        return found

    def _read(self, tenant_id: int, name: str) -> AnyRow | None:
        with self._database.reading() as connection:
            return serving.find_active(connection, tenant_id, name)
