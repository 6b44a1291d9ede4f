"""The micro-batcher: concurrent tasks for one version are searched together.

Nothing waits while the engine is idle, unless the last batch says that more tasks are about to come: then for a few
milliseconds. While the engine is busy tasks collect by themselves. Versions take turns; so do the pieces of a large
task with the tasks of others. Tasks that ask black boxes have threads of their own, and no tenant holds all of them:
a lender whose models are slow keeps nobody else waiting.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

from app.errors import DeadlineError, OverloadedError, UnavailableError
from app.explain.contract import ExplainAnswer, ExplainTask
from app.explain.engine.versions import LoadedVersion
from app.metrics import BatchReport
from models.config import SearchConfig
from models.networks.ode import RULES

USUAL_PATHS = 60
Run: TypeAlias = Callable[[LoadedVersion, Sequence[ExplainTask]], Sequence[ExplainAnswer | Exception]]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """records: about how many are searched together; queue: how many may wait; wait: seconds.

    threads: engines; asking: threads of the tasks that ask black boxes, where most of the time is spent waiting.
    """

    records: int = 64
    queue: int = 4096
    wait: float = 0.002
    threads: int = 1
    asking: int = 16


@dataclass(eq=False)
class _Waiting:
    """A piece of a task in its queue; tasks with equal configurations can be searched together."""

    task: ExplainTask
    version: LoadedVersion
    config: SearchConfig
    answer: "asyncio.Future[ExplainAnswer]"
    since: float = field(default_factory=time.monotonic)

    @property
    def size(self) -> int:
        return len(self.task.request.records)


Queue: TypeAlias = deque[_Waiting]
Group: TypeAlias = tuple[LoadedVersion, bool]
"""A version, and whether black boxes are asked: each has a queue of its own."""


class Batcher:
    """Queues and engine threads; it is used on one event loop."""

    def __init__(self, run: Run, limits: BatchLimits, observe: Callable[[BatchReport], None] | None = None) -> None:
        self._run = run
        self._limits = limits
        self._observe = observe
        self._queues: OrderedDict[Group, Queue] = OrderedDict()
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

    async def submit(self, version: LoadedVersion, task: ExplainTask) -> ExplainAnswer:
        """The answer; OverloadedError if the queue is full, DeadlineError if the time is over before it is begun.

        Who stops waiting, by being cancelled, takes the task out of the queue.
        """
        size = len(task.request.records)
        if self._closed:
            raise UnavailableError("the explainer is shutting down: try again soon")
        if self.pending and self.pending + size > self._limits.queue:
            raise OverloadedError(f"{self.pending} records wait already, {size} more do not fit: come back in a second")
        if task.deadline <= time.monotonic():
            raise _too_late(task)
        self.pending += size
        try:
            return await self._pieces(version, task, task.request.search_config())
        finally:
            self.pending -= size

    async def close(self) -> None:
        """Finish what is running and what waits; refuse what comes."""
        self._closed = True
        while self.pending or self._running:
            self._dispatch()
            await asyncio.sleep(0.005)
        for engines in self._engines.values():
            engines.shutdown(wait=False)

    async def _pieces(self, version: LoadedVersion, task: ExplainTask, config: SearchConfig) -> ExplainAnswer:
        """A large task goes piece by piece, so that others get their turn in between."""
        # A task that wants more paths a record than usual is cut into smaller pieces.
        size = max(1, self._limits.records * USUAL_PATHS // max(USUAL_PATHS, config.candidates * config.k))
        records = task.request.records
        if len(records) <= size:
            return await self._piece(version, task, config)
        answers: list[ExplainAnswer] = []
        starts = range(0, len(records), size)
        for first in range(0, len(starts), self._limits.threads):
            pieces = [
                replace(task, request=task.request.model_copy(update={"records": records[start : start + size]}))
                for start in starts[first : first + self._limits.threads]
            ]
            answers += await asyncio.gather(*(self._piece(version, piece, config) for piece in pieces))
        return ExplainAnswer(tuple(record for answer in answers for record in answer.records))

    async def _piece(self, version: LoadedVersion, task: ExplainTask, config: SearchConfig) -> ExplainAnswer:
        waiting = _Waiting(task, version, config, asyncio.get_running_loop().create_future())
        group = version, task.asks
        queue = self._queues.setdefault(group, deque())
        queue.append(waiting)
        self._dispatch()
        try:
            return await waiting.answer
        finally:
            # Cancelled or too late: nobody waits for it, so it is not run.
            if waiting in queue:
                queue.remove(waiting)
                self._drop_if_empty(group, queue)

    def _dispatch(self) -> None:
        """Start as many batches as there are free engines and ripe queues."""
        for group in list(self._queues):
            version, asks = group
            queue, expected = self._queues[group], self._expected.setdefault(version, {})
            if self._has_room(asks, queue[0].task.tenant_id) and self._is_due(queue, expected.get(asks, 1)):
                self._queues.move_to_end(group)
                batch = self._next_batch(queue)
                expected[asks] = len(batch)
                self._drop_if_empty(group, queue)
                if batch:
                    self._start(group, batch)

    def _has_room(self, asks: bool, tenant_id: int) -> bool:
        """Whether a thread is free; one that asks only while more are free than the tenant holds (see `FairRoom`)."""
        return self._free[asks] > (self._held[tenant_id] if asks else 0)

    def _is_due(self, queue: Queue, expected: int) -> bool:
        """Whether waiting would bring nothing: as many are there as came last time, or the first waited long enough."""
        left = queue[0].since + self._limits.wait - time.monotonic()
        records = sum(piece.size for piece in queue)
        if self._closed or left <= 0 or len(queue) >= expected or records >= self._limits.records:
            return True
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(left, self._wake)
        return False

    def _wake(self) -> None:
        self._alarm = None
        self._dispatch()

    def _next_batch(self, queue: Queue) -> list[_Waiting]:
        """The first piece and those that can go with it, until the batch is full; what is too late is left out."""
        batch: list[_Waiting] = []
        rest: Queue = deque()
        records = 0
        now = time.monotonic()
        for piece in queue:
            if piece.task.deadline <= now:
                _tell(piece.answer, _too_late(piece.task))
            elif records < self._limits.records and (not batch or piece.config == batch[0].config):
                batch.append(piece)
                records += piece.size
            else:
                rest.append(piece)
        queue.clear()
        queue.extend(rest)
        return batch

    def _drop_if_empty(self, group: Group, queue: Queue) -> None:
        if not queue and self._queues.get(group) is queue:
            del self._queues[group]

    def _start(self, group: Group, batch: list[_Waiting]) -> None:
        self._hold(group, batch, 1)
        self._running += 1
        self._engines[group[1]].submit(self._search, asyncio.get_running_loop(), group, batch)

    def _search(self, loop: asyncio.AbstractEventLoop, group: Group, batch: list[_Waiting]) -> None:
        """Runs in a thread of the engine."""
        began = time.monotonic()
        outcomes: Sequence[ExplainAnswer | BaseException]
        try:
            outcomes = self._run(group[0], [waiting.task for waiting in batch])
        # Those who wait get it, whatever it is: a task without an outcome would wait for ever.
        except BaseException as error:
            outcomes = [error] * len(batch)
        # Past the future of the executor, which would take the event loop two more rounds.
        loop.call_soon_threadsafe(self._end, group, batch, outcomes, time.monotonic() - began)

    def _hold(self, group: Group, batch: list[_Waiting], threads: int) -> None:
        """Take a thread, or with -1 give it back."""
        asks = group[1]
        self._free[asks] -= threads
        if asks:
            self._held[batch[0].task.tenant_id] += threads
            self._held += Counter()  # Forgets who holds none.

    def _end(
        self, group: Group, batch: list[_Waiting], outcomes: Sequence[ExplainAnswer | BaseException], seconds: float
    ) -> None:
        for waiting, outcome in zip(batch, outcomes, strict=True):
            _tell(waiting.answer, outcome)
        self._running -= 1
        self._hold(group, batch, -1)
        self._dispatch()
        if self._observe is not None:
            self._observe(_report(group[0], [waiting.task for waiting in batch], seconds))


def _report(version: LoadedVersion, tasks: Sequence[ExplainTask], seconds: float) -> BatchReport:
    records = sum(len(task.request.records) for task in tasks)
    paths = sum(task.request.work for task in tasks)
    flow = version.model.config.flow
    # An adaptive solver decides for itself how often it asks; its least is counted.
    stages = RULES[flow.solver].evaluations if flow.solver in RULES else 1
    return BatchReport(records, len(tasks), seconds, paths * flow.steps * stages)


def _tell(answer: "asyncio.Future[ExplainAnswer]", outcome: ExplainAnswer | BaseException) -> None:
    if answer.done():
        return
    if isinstance(outcome, BaseException):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _too_late(task: ExplainTask) -> DeadlineError:
    return DeadlineError(
        f"the deadline passed before {len(task.request.records)} records were answered: allow more time"
    )
