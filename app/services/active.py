"""The version that answers under a model's name, and a search that does not wait until it is known.

Which one is active is asked at every request: a switch counts from the moment that it is committed, whoever made it.
Nearly always it is the same as the last time. So the search begins with that one while the database is asked, and is
begun anew in the rare case that the answer is another.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from anyio import to_thread

from app.db import serving
from app.db.engine import Database
from app.db.types import AnyRow
from app.errors import NotFoundError

MOST_NAMES = 10_000
T = TypeVar("T")


class ActiveVersions:
    """Reads the database, and remembers what it read. It is used on one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last: dict[tuple[int, str], AnyRow] = {}

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

    async def search(self, tenant_id: int, name: str, work: Callable[[AnyRow], Awaitable[T]]) -> tuple[AnyRow, T]:
        """The active version and what `work` found with it. `work` may be begun twice: it must do no harm."""
        guess = self._last.get((tenant_id, name))
        if guess is None:
            version = await self.look_up(tenant_id, name)
            return version, await work(version)
        begun = asyncio.ensure_future(work(guess))
        try:
            version = await self.look_up(tenant_id, name)
            if version.version_id == guess.version_id:
                return version, await begun
        finally:
            begun.cancel()
            await asyncio.gather(begun, return_exceptions=True)
        return version, await work(version)

    def _read(self, tenant_id: int, name: str) -> AnyRow | None:
        with self._database.reading() as connection:
            return serving.find_active(connection, tenant_id, name)
