"""Group commit: the decision records of concurrent requests are written in one transaction.

A durable commit takes milliseconds, however many rows it holds. While one is under way rows collect for the next, so
nobody waits longer than for two commits, and one that is alone is written at once. The same transaction sees whether
the version that answered is still the active one: a switch counts from the moment that it is committed, whoever made
it, and to ask costs no transaction of its own.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from sqlalchemy.exc import DataError, IntegrityError

from app.db import explanations, serving
from app.db.driver import Driver
from app.db.engine import Database
from app.db.explanations import Decision


@dataclass(frozen=True, slots=True)
class Entry:
    """The rows of one request; `model`: only if their version is the active one of that name."""

    decisions: Sequence[Decision]
    model: str | None

    @property
    def must_be_active(self) -> tuple[int, str, UUID] | None:
        """Tenant, model and version."""
        first = self.decisions[0]
        return None if self.model is None else (first.tenant_id, self.model, first.model_version_id)


Waiting: TypeAlias = tuple[Entry, "asyncio.Future[bool]"]


class DecisionWriter:
    """Used on one event loop; it writes in a thread of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[Waiting] = []
        self._writing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")

    async def write(self, decisions: Sequence[Decision], model: str | None = None) -> bool:
        """Returns when the rows are durable; False: they are not, because another version is active under the name."""
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((Entry(decisions, model), written))
        if not self._writing:
            self._begin()
        return await written

    def _begin(self) -> None:
        """All that wait, in the thread."""
        group, self._waiting, self._writing = self._waiting, [], True
        self._thread.submit(self._write, asyncio.get_running_loop(), group)

    def _write(self, loop: asyncio.AbstractEventLoop, group: Sequence[Waiting]) -> None:
        outcomes = self._commit([entry for entry, _ in group])
        # Past the future of the executor, which would take the event loop two more rounds.
        loop.call_soon_threadsafe(self._end, group, outcomes)

    def _end(self, group: Sequence[Waiting], outcomes: Sequence[Exception | bool]) -> None:
        """Each is told; then those that came meanwhile have their turn."""
        for (_, written), outcome in zip(group, outcomes, strict=True):
            if written.done():
                continue
            if isinstance(outcome, Exception):
                written.set_exception(outcome)
            else:
                written.set_result(outcome)
        self._writing = False
        if self._waiting:
            self._begin()

    def _commit(self, group: Sequence[Entry]) -> Sequence[Exception | bool]:
        """One outcome a request; where its rows are at fault the others are written without it."""
        try:
            with self._database.driving() as driver:
                due = _due(driver, group)
                rows = [row for entry, is_due in zip(group, due, strict=True) if is_due for row in entry.decisions]
                if rows:
                    explanations.add(driver, rows)
        except (IntegrityError, DataError) as error:
            return [error] if len(group) == 1 else [self._commit([entry])[0] for entry in group]
        # Every request of the group waits for its rows: each is told why they are not there.
        except Exception as error:
            return [error] * len(group)
        return due


def _due(driver: Driver, group: Sequence[Entry]) -> list[bool]:
    """Whether each entry is to be written; every version is looked up once."""
    asked = {version for entry in group if (version := entry.must_be_active) is not None}
    active = {version for version in asked if serving.is_active(driver, *version)}
    return [entry.must_be_active is None or entry.must_be_active in active for entry in group]
