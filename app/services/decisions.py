"""Group commit: the decision records of concurrent requests are written in one transaction.

A durable commit takes milliseconds, however many rows it holds. While one is under way rows collect for the next, so
nobody waits longer than for two commits, and one that is alone is written at once.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy.exc import DataError, IntegrityError

from app.db import explanations
from app.db.engine import Database
from app.db.explanations import Decision

Waiting = tuple[Sequence[Decision], "asyncio.Future[None]"]


class DecisionWriter:
    """Used on one event loop; it writes in a thread of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")

    async def write(self, decisions: Sequence[Decision]) -> None:
        """Returns when the rows are durable."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((decisions, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        await written

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting, []
            errors = await loop.run_in_executor(self._thread, self._commit, [decisions for decisions, _ in group])
            for (_, written), error in zip(group, errors, strict=True):
                if written.done():
                    continue
                if error is None:
                    written.set_result(None)
                else:
                    written.set_exception(error)
        self._writing = None

    def _commit(self, group: Sequence[Sequence[Decision]]) -> Sequence[Exception | None]:
        """One error a request; where its rows are at fault the others are written without it."""
        try:
            with self._database.writing() as connection:
                explanations.add(connection, [decision for decisions in group for decision in decisions])
        except (IntegrityError, DataError) as error:
            return [error] if len(group) == 1 else [self._commit([decisions])[0] for decisions in group]
        # Every request of the group waits for its rows: each is told why they are not there.
        except Exception as error:
            return [error] * len(group)
        return [None] * len(group)
