"""Waiting on a caller's behalf: until a deadline or a hang-up, within a tenant's share of threads and live streams.

`Deadline` and `until` say how much time is left. `unless_gone` drops the work of a caller who hung up. `SharedThreads`
wait for black boxes, and no tenant holds all of them. `StreamLimit` and `StillAuthorised` keep live streams in bounds.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from app.errors import AuthenticationError, DeadlineError, OverloadedError
from models.errors import EnsembleError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock after which nothing more is asked."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    @classmethod
    def never(cls) -> "Deadline":
        return cls(math.inf)

    @property
    def remaining(self) -> float:
        """Seconds left, not below 0."""
        return max(0.0, self.at - time.monotonic())

    def check(self, still_to_do: str) -> None:
        """Raise DeadlineError, which says what was left to do, if the time is over."""
        if self.remaining <= 0.0:
            raise DeadlineError(f"the deadline passed with {still_to_do} still to ask: allow more time or ask for less")


@asynccontextmanager
async def until(deadline: float, records: int) -> AsyncIterator[None]:
    """What is inside is cancelled at the deadline, a moment of time.monotonic(), which is the event loop's clock.

    Models that had not answered by then are no fault of theirs.
    """
    try:
        async with asyncio.timeout_at(None if math.isinf(deadline) else deadline):
            yield
    except (TimeoutError, EnsembleError) as error:
        if isinstance(error, EnsembleError) and time.monotonic() < deadline:
            raise
        raise DeadlineError(f"the deadline passed before {records} records were answered: allow more time") from None


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, which is cancelled when the caller hangs up. The body must have been read."""
    working, gone = asyncio.current_task(), False
    assert working is not None
    before = working.cancelling()

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            continue
        gone = True
        working.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        # Whoever else cancelled it as well goes first.
        if gone and working.uncancel() <= before:
            raise DeadlineError("the caller hung up before the answer was there") from None
        raise
    finally:
        watching.cancel()


class FairRoom:
    """Places that holders share, on one event loop: a holder may take one more while more are free than it has.

    One holder alone gets at most half of them, two together three quarters: however many are slow, the next one finds a
    free place.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._held: Counter[Hashable] = Counter()
        self._waiting: list[asyncio.Future[None]] = []

    async def take(self, holder: Hashable) -> None:
        """Wait for a place; it is to be given back."""
        while self._free <= self._held[holder]:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        self._count(holder, 1)

    def give_back(self, holder: Hashable) -> None:
        self._count(holder, -1)
        woken, self._waiting = self._waiting, []
        for waiting in woken:
            if not waiting.done():
                waiting.set_result(None)

    @asynccontextmanager
    async def place(self, holder: Hashable) -> AsyncIterator[None]:
        await self.take(holder)
        try:
            yield
        finally:
            self.give_back(holder)

    def _count(self, holder: Hashable, places: int) -> None:
        self._free -= places
        self._held[holder] += places
        self._held += Counter()  # Forgets who holds none.


class SharedThreads:
    """`count` threads, which tenants share as a `FairRoom` says; who wants more waits. It is used on one event loop."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="ask")
        self._room = FairRoom(count)

    async def run(self, tenant_id: int, work: Callable[[], T], patience: float | None = None) -> T:
        """What `work` returns. A caller who is cancelled stops waiting, but work that has begun keeps its thread.

        OverloadedError if the tenant's share was taken for `patience` seconds.
        """
        try:
            async with asyncio.timeout(patience):
                await self._room.take(tenant_id)
        except TimeoutError:
            raise OverloadedError(f"your other requests took every place for {patience:g} s: try again") from None
        loop = asyncio.get_running_loop()

        def release(_: "Future[T]") -> None:
            with suppress(RuntimeError):  # The loop is closed: nobody waits.
                loop.call_soon_threadsafe(self._room.give_back, tenant_id)

        begun = self._threads.submit(work)
        begun.add_done_callback(release)
        return await asyncio.wrap_future(begun)

    def share(self, tenant_id: int) -> "ThreadShare":
        """The threads as one tenant has them."""
        return ThreadShare(self, tenant_id)

    def close(self) -> None:
        """Begin nothing more; what runs ends by itself."""
        self._threads.shutdown(wait=False)


@dataclass(frozen=True, slots=True)
class ThreadShare:
    """One tenant's share of threads."""

    threads: SharedThreads
    tenant_id: int

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns."""
        return await self.threads.run(self.tenant_id, work)


CHECK_SECONDS = 2.0
"""A stream ends so long after its key is revoked or its session over, and one look at the database later."""


class StreamLimit:
    """The open streams of each tenant, or its uploads, in this process; used on one event loop."""

    def __init__(self, most: int, what: str = "streams are open") -> None:
        self._most = most
        self._what = what
        self._open: Counter[int] = Counter()

    @contextmanager
    def place(self, tenant_id: int) -> Iterator[None]:
        """One more; OverloadedError if the tenant has as many as it may."""
        if self._open[tenant_id] >= self._most:
            raise OverloadedError(f"{self._most} {self._what} already: come back when one has ended")
        self._open[tenant_id] += 1
        try:
            yield
        finally:
            self._open[tenant_id] -= 1
            self._open += Counter()  # Forgets who has none.


class StillAuthorised:
    """Whether a caller who was known when a stream began still is: looked up again every CHECK_SECONDS."""

    def __init__(self, identify: Callable[[], object], threads: ThreadShare) -> None:
        """`identify` blocks, and raises AuthenticationError for whom it does not know."""
        self._identify = identify
        self._threads = threads
        self._looked = time.monotonic()

    async def holds(self) -> bool:
        if time.monotonic() - self._looked < CHECK_SECONDS:
            return True
        try:
            await self._threads.run(self._identify)
        except AuthenticationError:
            return False
        self._looked = time.monotonic()
        return True
