"""What keeps live streams in bounds: how many a tenant may have, and whether their callers may still listen."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anyio import to_thread

from app.errors import AuthenticationError, OverloadedError

CHECK_SECONDS = 2.0
"""A stream ends so long after its key is revoked or its session over, and one look at the database later."""


class StreamRoom:
    """The open streams of each tenant, in this process; used on one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[int] = Counter()

    @contextmanager
    def place(self, tenant_id: int) -> Iterator[None]:
        """One stream more; OverloadedError if the tenant has as many as it may."""
        if self._open[tenant_id] >= self._most:
            raise OverloadedError(f"{self._most} live streams are open already: close one, or ask from time to time")
        self._open[tenant_id] += 1
        try:
            yield
        finally:
            self._open[tenant_id] -= 1
            self._open += Counter()  # Forgets who has none.


class Standing:
    """Whether a caller who was known when a stream began still is: looked up anew every CHECK_SECONDS."""

    def __init__(self, identify: Callable[[], object]) -> None:
        """`identify` blocks, and raises AuthenticationError for whom it does not know."""
        self._identify = identify
        self._looked = time.monotonic()

    async def holds(self) -> bool:
        if time.monotonic() - self._looked < CHECK_SECONDS:
            return True
        try:
            await to_thread.run_sync(self._identify)
        except AuthenticationError:
            return False
        self._looked = time.monotonic()
        return True
