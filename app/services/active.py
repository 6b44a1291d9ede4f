"""The version that answers under a model's name, and a search that does not wait until it is known.

Which one is active is asked at every request: a switch counts from the moment that it is committed, whoever made it.
Nearly always it is the same as the last time. So the search begins with that one while the database is asked, and is
begun anew in the rare case that the answer is another. One read answers all who asked before it began.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

from app.db import serving
from app.db.engine import Database
from app.db.types import AnyRow
from app.errors import NotFoundError

MOST_NAMES = 10_000
T = TypeVar("T")
Named: TypeAlias = tuple[int, str]
"""A tenant's id and a model's name."""
Found: TypeAlias = dict[Named, AnyRow | None]


class ActiveVersions:
    """Reads the database in a thread of its own, and remembers what it read. It is used on one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last: dict[Named, AnyRow] = {}
        self._waiting: list[tuple[Named, asyncio.Future[AnyRow | None]]] = []
        self._reading: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="active")

    async def look_up(self, tenant_id: int, name: str) -> AnyRow:
        """version_id, number and model, as they are now; NotFoundError if nothing was trained under the name."""
        found = await self._ask((tenant_id, name))
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

    async def _ask(self, named: Named) -> AnyRow | None:
        answer: asyncio.Future[AnyRow | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((named, answer))
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all())
        return await answer

    async def _read_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                found = await loop.run_in_executor(self._thread, self._read, {named for named, _ in group})
            # Everyone of the group is told why there is no answer.
            except Exception as error:
                for _, answer in group:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for named, answer in group:
                if not answer.done():
                    answer.set_result(found[named])
        self._reading = None

    def _read(self, wanted: Collection[Named]) -> Found:
        with self._database.reading() as connection:
            return {named: serving.find_active(connection, *named) for named in wanted}
