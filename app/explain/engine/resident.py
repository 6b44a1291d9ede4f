"""The explainer in this process: the embedded API has one, and so has every worker. It imports torch.

The resident explainer of a process, from its settings. Only embedded mode and workers import it: it loads torch.

Records put to the ensemble of a version as it is now: metered, and free where the answer was bought before.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

import numpy as np
import torch
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from app.artifacts import open_store
from app.auth.keyring import open_keyring
from app.concurrency import Deadline, SharedThreads, until
from app.db.engine import Database
from app.ensembles.directory import EnsembleDirectory
from app.explain.contract import ExplainAnswer, ExplainerState, ExplainOrder, VerifiedRecord, VerifyAnswer, VerifyOrder
from app.explain.engine.batch import config_of, count_nothing, run_batch
from app.explain.engine.batcher import Batcher, BatchLimits
from app.explain.engine.versions import Key, LoadedVersion, VersionShelf, VersionSource, Warming
from app.ledger.ledger import Ledger
from app.metrics import BatchMetrics
from app.settings import Settings
from models.data.records import check_record
from models.ensemble.votes import agreement, answered, beta_lower_bound, votes
from models.errors import RecordError
from models.search.search import target_codes

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


def open_resident(
    settings: Settings, database: Database, registry: CollectorRegistry | None = None
) -> ResidentExplainer:
    """An explainer over the database and the artifact store; with a registry, its metrics are there."""
    ledger = Ledger(database, lease=timedelta(seconds=settings.budget_lease_seconds))
    ensembles = EnsembleDirectory(settings, database, ledger, open_keyring(settings))
    source = VersionSource(database, ensembles, open_store(settings), settings.device)
    limits = BatchLimits(
        records=settings.explain_batch,
        queue=settings.explain_queue,
        wait=settings.explain_wait_ms / 1000,
        threads=settings.explain_threads,
    )
    metrics = None if registry is None else BatchMetrics(registry)
    active = partial(source.active, settings.resident_models)
    return ResidentExplainer(source.load, limits, settings.resident_models, metrics, active)


def ask_ensemble(version: LoadedVersion, order: VerifyOrder, deadline: Deadline) -> VerifyAnswer:
    """It blocks; a record that cannot be read gets its own error and is not asked."""
    schema = version.model.encoder.schema
    target = None if order.target is None else target_codes(version.model, order.target, 1)
    answers: list[VerifiedRecord | None] = [None] * len(order.records)
    rows, places = [np.empty((0, len(schema.features)))], []
    for position, record in enumerate(order.records):
        try:
            rows.append(check_record(schema, record))
            places.append(position)
        except RecordError as error:
            answers[position] = VerifiedRecord(error=str(error))
    meter = version.meter()
    with meter.open(max(1, len(places)), deadline=deadline) as ensemble:
        said = ensemble.ask(np.concatenate(rows))
    for column, position in enumerate(places):
        answers[position] = _verified(said.probabilities[:, column : column + 1], target)
    found = tuple(answer for answer in answers if answer is not None)
    return VerifyAnswer(meter.member_names, meter.classes, found, said.charged, said.reused)


def _verified(said: NDArray[np.float64], target: NDArray[np.int64] | None) -> VerifiedRecord:
    """said (m, 1, K), target (1,)"""
    heard = answered(said)[:, 0]
    rows = tuple(tuple(row.tolist()) if known else None for row, known in zip(said[:, 0], heard, strict=True))
    if target is None:
        return VerifiedRecord(rows)
    yes = votes(said, target)[:, 0]
    each = tuple(bool(vote) if known else None for vote, known in zip(yes, heard, strict=True))
    bound = beta_lower_bound(int(yes.sum()), int((heard & ~yes).sum()))
    return VerifiedRecord(rows, each, float(agreement(said, target)[0]), bound)
