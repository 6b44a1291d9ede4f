"""Threads in which black boxes are waited for. No tenant holds all of them: slow models keep nobody else waiting."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class SharedThreads:
    """`count` threads, of which one tenant may hold `share`; who wants more waits. It is used on one event loop."""

    def __init__(self, count: int, share: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="ask")
        self._share = share
        self._rooms: WeakValueDictionary[int, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, tenant_id: int, work: Callable[[], T]) -> T:
        """What `work` returns. Who is cancelled does not wait any more, but work that was begun holds its thread."""
        room = self._rooms.setdefault(tenant_id, asyncio.Semaphore(self._share))
        await room.acquire()
        loop = asyncio.get_running_loop()

        def release(_: "Future[T]") -> None:
            with suppress(RuntimeError):  # The loop is closed: nobody waits.
                loop.call_soon_threadsafe(room.release)

        begun = self._threads.submit(work)
        begun.add_done_callback(release)
        return await asyncio.wrap_future(begun)

    def close(self) -> None:
        """Begin nothing more; what runs ends by itself."""
        self._threads.shutdown(wait=False)
