"""The explainer in this process: the embedded API has one, and so has every worker. It imports torch."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

import torch

from app.blackbox.deadline import Deadline, until
from app.blackbox.shared_threads import SharedThreads
from app.explaining.asking import ask_ensemble
from app.explaining.batch_metrics import BatchMetrics
from app.explaining.batcher import Batcher, BatchLimits
from app.explaining.engine import config_of, count_nothing, run_batch
from app.explaining.protocol import ExplainAnswer, ExplainerState, ExplainOrder, VerifyAnswer, VerifyOrder
from app.explaining.versions import Key, LoadedVersion, VersionShelf
from app.explaining.warming import Warming

SWITCH_SECONDS = 0.0005
ASKING_THREADS, ASKING_SHARE = 5, 4
"""Remote black boxes are waited for here, not in an engine; a tenant has a share of it."""


class ResidentExplainer:
    """Models in memory, micro-batches, engine threads. It is made and used on one event loop."""

    def __init__(
        self,
        load: Callable[[int, UUID], LoadedVersion],
        limits: BatchLimits | None = None,
        capacity: int = 4,
        metrics: BatchMetrics | None = None,
        active: Callable[[], Sequence[Key]] = tuple,
    ) -> None:
        """`load` reads a version of a tenant, and raises NotFoundError where there is none; `active` lists versions
        that are wanted in memory before anybody asks.
        """
        # One thread a batch: the matrices are small, and several batches can run beside each other instead.
        torch.set_num_threads(1)
        # A search is many small steps: at the default of 5 ms the event loop would read requests one batch too late.
        sys.setswitchinterval(SWITCH_SECONDS)
        self._limits = limits or BatchLimits()
        self._shelf = VersionShelf(load, capacity)
        self._warming, self._warm = Warming(self._shelf, active), set[asyncio.Task[None]]()
        count = count_nothing if metrics is None else metrics.count_queries
        observe = None if metrics is None else metrics.observe
        self._batcher = Batcher(partial(run_batch, count=count), self._limits, observe)
        self._asking = SharedThreads(ASKING_THREADS, ASKING_SHARE)
        self._closing = False
        if metrics is not None:
            metrics.watch_queue(lambda: self._batcher.pending)

    def start(self) -> None:
        """Begin to load what is active; until that is done the state says so."""
        self._warm.add(asyncio.create_task(self._warming.run()))

    async def explain(self, order: ExplainOrder) -> ExplainAnswer:
        kind = config_of(order)
        async with until(order.deadline, len(order.records)):
            version = await self._shelf.take(order.tenant_id, order.version_id)
            return await self._batcher.submit(version, order, kind)

    async def verify(self, order: VerifyOrder) -> VerifyAnswer:
        async with until(order.deadline, len(order.records)):
            version = await self._shelf.take(order.tenant_id, order.version_id)
            work = partial(ask_ensemble, version, order, Deadline(order.deadline))
            return await self._asking.run(order.tenant_id, work)

    async def state(self) -> ExplainerState:
        reason = self._warming.reason if self._warm else None
        if self._closing:
            reason = "the explainer is shutting down"
        return ExplainerState(
            ready=reason is None,
            reason=reason,
            versions=len(self._shelf),
            queued_records=self._batcher.pending,
            queue_limit=self._limits.queue,
        )

    async def close(self) -> None:
        self._closing = True
        for task in self._warm:
            task.cancel()
        await self._batcher.close()
        self._shelf.close()
        self._asking.close()
