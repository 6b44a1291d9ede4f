"""Versions are loaded before anybody asks for them: at the start those that are active, later those that become it.

A version that is cold costs its first caller seconds, on a starved machine more than the deadline. What cannot be
loaded is logged, and left to the order that wants it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from app.explaining.versions import Key, VersionShelf

LOOK_SECONDS = 5.0
START_SECONDS = 120.0
"""After so long the explainer counts as ready, loaded or not: orders wait for what they need."""
logger = structlog.get_logger("recourse.explain")


class Warming:
    """Fills a shelf. `find` blocks, and lists the active versions, the most important first."""

    def __init__(self, shelf: VersionShelf, find: Callable[[], Sequence[Key]]) -> None:
        self._shelf, self._find = shelf, find
        self._until = time.monotonic() + START_SECONDS
        self._seen: set[Key] = set()
        self._left: int | None = None

    @property
    def reason(self) -> str | None:
        """Why the explainer is not ready yet; None once the versions of the start are loaded."""
        if self._left == 0 or time.monotonic() > self._until:
            return None
        return "the models are being looked up" if self._left is None else f"{self._left} models are still being loaded"

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                found = await asyncio.to_thread(self._find)
                await self._load([key for key in found if key not in self._seen])
                # One that is no longer active is loaded anew when it becomes active again.
                self._seen = set(found)
            # The database is away, or what not: it must not end the warming.
            except Exception as error:
                logger.warning("active models not found", reason=type(error).__name__, exc_info=error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _load(self, keys: Sequence[Key]) -> None:
        for place, (tenant_id, version_id) in enumerate(keys):
            if self._left != 0:
                self._left = len(keys) - place
            try:
                version = await self._shelf.take(tenant_id, version_id)
                # The ensemble too: a verified search asks it.
                await asyncio.to_thread(version.meter)
            # One version that is broken keeps no other one cold.
            except Exception as error:
                logger.warning("model not loaded", version=str(version_id), reason=str(error))
        self._left = 0
