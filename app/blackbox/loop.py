"""An event loop in a thread of its own, for synchronous callers."""

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for any thread: connections stay open between calls, and a timeout stops whatever hangs."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Stop the loop; what still runs in it is dropped."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
