"""Model versions in memory: the most recently used ones stay, each is loaded once, and nobody waits for another's."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from threading import Lock
from typing import TypeAlias
from uuid import UUID

from app.blackbox.meter import EnsembleMeter
from models.model import RecourseModel

Key: TypeAlias = tuple[int, UUID]
"""Tenant and version."""


class LoadedVersion:
    """One version, ready to search; its ensemble is opened when the first order wants to ask it."""

    def __init__(self, model: RecourseModel, open_meter: Callable[[], EnsembleMeter]) -> None:
        self.model = model
        self._open_meter = open_meter
        self._meter: EnsembleMeter | None = None
        self._lock = Lock()

    def meter(self) -> EnsembleMeter:
        """The metered way to the version's ensemble; this blocks, and may raise an ArtifactError."""
        with self._lock:
            if self._meter is None:
                self._meter = self._open_meter()
            return self._meter

    def close(self) -> None:
        """Close the connections of a remote ensemble."""
        with self._lock:
            if self._meter is not None:
                self._meter.close()
                self._meter = None


class _Place:
    """A version on the shelf: who loads it, and how many orders hold it."""

    def __init__(self, loading: "asyncio.Task[LoadedVersion]") -> None:
        self.loading = loading
        self.holders = 0
        self.evicted = False


class VersionShelf:
    """At most `capacity` versions, the least recently used one goes first; who holds one keeps it until the end."""

    def __init__(self, load: Callable[[int, UUID], LoadedVersion], capacity: int) -> None:
        """`load` blocks; it runs in a thread of its own."""
        self._load = load
        self._capacity = capacity
        self._places: OrderedDict[Key, _Place] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="load")

    def __len__(self) -> int:
        return len(self._places)

    @asynccontextmanager
    async def hold(self, tenant_id: int, version_id: UUID) -> AsyncIterator[LoadedVersion]:
        """The version, loaded if need be; inside the `with` it stays as it is."""
        place = self._place((tenant_id, version_id))
        place.holders += 1
        try:
            # Shielded: the order that asked first may go away, others wait for the same load.
            yield await asyncio.shield(place.loading)
        finally:
            place.holders -= 1
            self._close_if_done(place)

    def close(self) -> None:
        """Forget every version; those still held are closed by their last holder."""
        for key in list(self._places):
            self._evict(key)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _place(self, key: Key) -> _Place:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(asyncio.create_task(self._loaded(key)))
            place.loading.add_done_callback(partial(self._drop_if_failed, key, place))
            while len(self._places) > self._capacity:
                self._evict(next(iter(self._places)))
        else:
            self._places.move_to_end(key)
        return place

    async def _loaded(self, key: Key) -> LoadedVersion:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._load, *key)

    def _drop_if_failed(self, key: Key, place: _Place, loading: "asyncio.Task[LoadedVersion]") -> None:
        """The next order tries again."""
        if (loading.cancelled() or loading.exception() is not None) and self._places.get(key) is place:
            del self._places[key]

    def _evict(self, key: Key) -> None:
        place = self._places.pop(key)
        place.evicted = True
        self._close_if_done(place)

    def _close_if_done(self, place: _Place) -> None:
        loading = place.loading
        unused = place.evicted and place.holders == 0 and loading.done()
        if unused and not loading.cancelled() and loading.exception() is None:
            loading.result().close()
