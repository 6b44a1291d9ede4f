"""The micro-batcher: concurrent orders for one version are searched together.

Nothing waits while the engine is idle, unless the last batch says that more orders are about to come: then for a few
milliseconds. While the engine is busy orders collect by themselves. Versions take turns; so do the pieces of a large
order with the orders of others. Orders that ask black boxes have threads of their own, and no tenant holds all of them:
a lender whose models are slow keeps nobody else waiting.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

from app.errors import DeadlineError, OverloadedError, UnavailableError
from app.explain.contract import ExplainAnswer, ExplainOrder
from app.explain.engine.versions import LoadedVersion
from app.metrics import BatchReport
from models.networks.ode import RULES

USUAL_PATHS = 60
Run: TypeAlias = Callable[[LoadedVersion, Sequence[ExplainOrder]], Sequence[ExplainAnswer | Exception]]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """records: about how many are searched together; queue: how many may wait; wait: seconds.

    threads: engines; asking: threads of the orders that ask black boxes, where most of the time is spent waiting;
    share: how many of those one tenant may hold.
    """

    records: int = 64
    queue: int = 4096
    wait: float = 0.002
    threads: int = 1
    asking: int = 5
    share: int = 4


@dataclass(eq=False)
class _Waiting:
    """A piece of an order in the queue; orders with equal kinds can be searched together."""

    order: ExplainOrder
    version: LoadedVersion
    kind: Hashable
    answer: "asyncio.Future[ExplainAnswer]"
    since: float = field(default_factory=time.monotonic)


Line: TypeAlias = deque[_Waiting]
Lane: TypeAlias = tuple[LoadedVersion, bool]
"""A version, and whether black boxes are asked: each has a line of its own."""


class Batcher:
    """Queues and engine threads; it is used on one event loop."""

    def __init__(self, run: Run, limits: BatchLimits, observe: Callable[[BatchReport], None] | None = None) -> None:
        self._run = run
        self._limits = limits
        self._observe = observe
        self._lines: OrderedDict[Lane, Line] = OrderedDict()
        self._expected: WeakKeyDictionary[LoadedVersion, dict[bool, int]] = WeakKeyDictionary()
        self._free = {False: limits.threads, True: limits.asking}
        self._held: Counter[int] = Counter()
        """Asking threads of each tenant."""
        self._engines = {
            asks: ThreadPoolExecutor(count, thread_name_prefix="ask" if asks else "engine")
            for asks, count in self._free.items()
        }
        self._running = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False
        self.pending = 0
        """Records that were asked for and are not answered yet."""

    async def submit(self, version: LoadedVersion, order: ExplainOrder, kind: Hashable) -> ExplainAnswer:
        """The answer; OverloadedError if the queue is full, DeadlineError if the time is over before it is begun.

        Who stops waiting, by being cancelled, takes the order out of the queue.
        """
        size = len(order.records)
        if self._closed:
            raise UnavailableError("the explainer is shutting down: try again soon")
        if self.pending and self.pending + size > self._limits.queue:
            raise OverloadedError(f"{self.pending} records wait already, {size} more do not fit: come back in a second")
        if order.deadline <= time.monotonic():
            raise _too_late(order)
        self.pending += size
        try:
            return await self._pieces(version, order, kind)
        finally:
            self.pending -= size

    async def close(self) -> None:
        """Finish what is running and what waits; refuse what comes."""
        self._closed = True
        while self.pending or self._running:
            self._pump()
            await asyncio.sleep(0.005)
        for engines in self._engines.values():
            engines.shutdown(wait=False)

    async def _pieces(self, version: LoadedVersion, order: ExplainOrder, kind: Hashable) -> ExplainAnswer:
        """A large order goes piece by piece, so that others get their turn in between."""
        # An order that wants more paths a record than usual is cut into smaller pieces.
        size = max(1, self._limits.records * USUAL_PATHS // max(USUAL_PATHS, order.candidates * order.k))
        if len(order.records) <= size:
            return await self._piece(version, order, kind)
        answers: list[ExplainAnswer] = []
        starts = range(0, len(order.records), size)
        for first in range(0, len(starts), self._limits.threads):
            parts = [order.records[start : start + size] for start in starts[first : first + self._limits.threads]]
            answers += await asyncio.gather(
                *(self._piece(version, replace(order, records=part), kind) for part in parts)
            )
        return ExplainAnswer(tuple(record for answer in answers for record in answer.records))

    async def _piece(self, version: LoadedVersion, order: ExplainOrder, kind: Hashable) -> ExplainAnswer:
        waiting = _Waiting(order, version, kind, asyncio.get_running_loop().create_future())
        lane = version, order.max_queries > 0
        line = self._lines.setdefault(lane, deque())
        line.append(waiting)
        self._pump()
        try:
            return await waiting.answer
        finally:
            # Cancelled or too late: nobody waits for it, so it is not run.
            if waiting in line:
                line.remove(waiting)
                self._drop_if_empty(lane, line)

    def _pump(self) -> None:
        """Start as many batches as there are free engines and ripe lines."""
        for lane in list(self._lines):
            version, asks = lane
            line, expected = self._lines[lane], self._expected.setdefault(version, {})
            if self._has_room(asks, line[0].order.tenant_id) and self._ripe(line, expected.get(asks, 1)):
                self._lines.move_to_end(lane)
                batch = self._take(line)
                expected[asks] = len(batch)
                self._drop_if_empty(lane, line)
                if batch:
                    self._start(lane, batch)

    def _has_room(self, asks: bool, tenant_id: int) -> bool:
        return self._free[asks] > 0 and not (asks and self._held[tenant_id] >= self._limits.share)

    def _ripe(self, line: Line, expected: int) -> bool:
        """Whether waiting would bring nothing: as many are there as came last time, or the first waited long enough."""
        left = line[0].since + self._limits.wait - time.monotonic()
        records = sum(len(piece.order.records) for piece in line)
        if self._closed or left <= 0 or len(line) >= expected or records >= self._limits.records:
            return True
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(left, self._wake)
        return False

    def _wake(self) -> None:
        self._alarm = None
        self._pump()

    def _take(self, line: Line) -> list[_Waiting]:
        """The first piece and those that can go with it, until the batch is full; what is too late is left out."""
        batch: list[_Waiting] = []
        rest: Line = deque()
        records = 0
        now = time.monotonic()
        for piece in line:
            if piece.order.deadline <= now:
                _tell(piece.answer, _too_late(piece.order))
            elif records < self._limits.records and (not batch or piece.kind == batch[0].kind):
                batch.append(piece)
                records += len(piece.order.records)
            else:
                rest.append(piece)
        line.clear()
        line.extend(rest)
        return batch

    def _drop_if_empty(self, lane: Lane, line: Line) -> None:
        if not line and self._lines.get(lane) is line:
            del self._lines[lane]

    def _start(self, lane: Lane, batch: list[_Waiting]) -> None:
        self._hold(lane, batch, 1)
        self._running += 1
        self._engines[lane[1]].submit(self._search, asyncio.get_running_loop(), lane, batch)

    def _search(self, loop: asyncio.AbstractEventLoop, lane: Lane, batch: list[_Waiting]) -> None:
        """In an engine's thread."""
        began = time.monotonic()
        outcomes: Sequence[ExplainAnswer | BaseException]
        try:
            outcomes = self._run(lane[0], [waiting.order for waiting in batch])
        # Those who wait get it, whatever it is: an order without an outcome would wait for ever.
        except BaseException as error:
            outcomes = [error] * len(batch)
        # Past the future of the executor, which would take the event loop two more rounds.
        loop.call_soon_threadsafe(self._end, lane, batch, outcomes, time.monotonic() - began)

    def _hold(self, lane: Lane, batch: list[_Waiting], threads: int) -> None:
        """Take a thread, or with -1 give it back."""
        asks = lane[1]
        self._free[asks] -= threads
        if asks:
            self._held[batch[0].order.tenant_id] += threads
            self._held += Counter()  # Forgets who holds none.

    def _end(
        self, lane: Lane, batch: list[_Waiting], outcomes: Sequence[ExplainAnswer | BaseException], seconds: float
    ) -> None:
        for waiting, outcome in zip(batch, outcomes, strict=True):
            _tell(waiting.answer, outcome)
        self._running -= 1
        self._hold(lane, batch, -1)
        self._pump()
        if self._observe is not None:
            self._observe(_report(lane[0], [waiting.order for waiting in batch], seconds))


def _report(version: LoadedVersion, orders: Sequence[ExplainOrder], seconds: float) -> BatchReport:
    records = sum(len(order.records) for order in orders)
    paths = sum(len(order.records) * order.candidates * order.k for order in orders)
    flow = version.model.config.flow
    # An adaptive solver decides for itself how often it asks; its least is counted.
    stages = RULES[flow.solver].evaluations if flow.solver in RULES else 1
    return BatchReport(records, len(orders), seconds, paths * flow.steps * stages)


def _tell(answer: "asyncio.Future[ExplainAnswer]", outcome: ExplainAnswer | BaseException) -> None:
    if answer.done():
        return
    if isinstance(outcome, BaseException):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _too_late(order: ExplainOrder) -> DeadlineError:
    return DeadlineError(f"the deadline passed before {len(order.records)} records were answered: allow more time")
