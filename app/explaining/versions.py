"""Model versions in memory: the most recently used ones stay, and each is loaded once, however many orders want it."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from app.blackbox.meter import EnsembleMeter
from models.model import RecourseModel

Key: TypeAlias = tuple[int, UUID]
"""Tenant and version."""


@dataclass(frozen=True, eq=False)
class LoadedVersion:
    """One version, ready to search, and the metered way to its ensemble.

    `meter` blocks, and may raise an ArtifactError or a NotFoundError: an ensemble is opened when an order asks it.
    """

    model: RecourseModel
    meter: Callable[[], EnsembleMeter]


class VersionShelf:
    """At most `capacity` versions; the least recently used one goes first. Who runs with one keeps it to the end."""

    def __init__(self, load: Callable[[int, UUID], LoadedVersion], capacity: int) -> None:
        """`load` blocks; it runs in a thread of its own."""
        self._load = load
        self._capacity = capacity
        self._loads: OrderedDict[Key, asyncio.Task[LoadedVersion]] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="load")

    def __len__(self) -> int:
        return len(self._loads)

    async def take(self, tenant_id: int, version_id: UUID) -> LoadedVersion:
        """The version, loaded if need be; a load that failed is tried again by the next order."""
        key = (tenant_id, version_id)
        load = self._loads.get(key)
        if load is None or (load.done() and (load.cancelled() or load.exception() is not None)):
            load = self._loads[key] = asyncio.create_task(self._in_thread(key))
        self._loads.move_to_end(key)
        while len(self._loads) > self._capacity:
            self._loads.popitem(last=False)
        try:
            # Shielded: the order that asked first may go away, others wait for the same load.
            return await asyncio.shield(load)
        finally:
            if load.done() and self._loads.get(key) is load and (load.cancelled() or load.exception() is not None):
                del self._loads[key]

    def close(self) -> None:
        """Forget every version."""
        self._loads.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, key: Key) -> LoadedVersion:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._load, *key)
