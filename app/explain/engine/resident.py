"""The explainer in this process: the embedded API has one, and so has every worker. It imports torch."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
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
from app.explain.asking import ask_records, heard
from app.explain.contract import ExplainAnswer, ExplainerState, ExplainTask, VerifiedRecord, VerifyAnswer, VerifyTask
from app.explain.engine.batch import count_nothing, run_batch
from app.explain.engine.batcher import Batcher, BatchLimits
from app.explain.engine.versions import Key, LoadedVersion, Preloader, VersionCache, VersionSource
from app.ledger.chain import ChainKey
from app.ledger.ledger import Ledger
from app.metrics import BatchMetrics
from app.settings import Settings
from models.ensemble.votes import agreement, answered, beta_lower_bound, votes
from models.search.search import target_codes

SWITCH_SECONDS = 0.0005
ASKING_THREADS = 16
"""Remote black boxes are waited for here, not in an engine."""


class ResidentExplainer:
    """Models in memory, micro-batches, engine threads. It is made and used on one event loop."""

    def __init__(
        self,
        load: Callable[[int, UUID], LoadedVersion],
        limits: BatchLimits | None = None,
        capacity: int = 4,
        metrics: BatchMetrics | None = None,
        active: Callable[[], Sequence[Key]] = tuple,
        release: Callable[[], None] | None = None,
    ) -> None:
        """`load` reads a version of a tenant, and raises NotFoundError where there is none; `active` lists versions
        that are wanted in memory before anybody asks; `release` lets go of what `load` keeps open.
        """
        # One thread a batch: the matrices are small, and several batches can run beside each other instead.
        torch.set_num_threads(1)
        # A search is many small steps: at the default of 5 ms the event loop would read requests one batch too late.
        sys.setswitchinterval(SWITCH_SECONDS)
        self._limits = limits or BatchLimits()
        self._versions = VersionCache(load, capacity)
        self._preloader, self._preloading = Preloader(self._versions, active), set[asyncio.Task[None]]()
        count = count_nothing if metrics is None else metrics.count_queries
        observe = None if metrics is None else metrics.observe
        self._batcher = Batcher(partial(run_batch, count=count), self._limits, observe)
        self._asking = SharedThreads(ASKING_THREADS)
        self._closing, self._release = False, release
        if metrics is not None:
            metrics.watch_queue(lambda: self._batcher.pending)

    def start(self) -> None:
        """Begin to load what is active; until that is done the state says so."""
        self._preloading.add(asyncio.create_task(self._preloader.run()))

    async def explain(self, task: ExplainTask) -> ExplainAnswer:
        async with until(task.deadline, len(task.request.records)):
            version = await self._versions.get(task.tenant_id, task.version_id)
            return await self._batcher.submit(version.under(task.policy), task)

    async def verify(self, task: VerifyTask) -> VerifyAnswer:
        async with until(task.deadline, len(task.records)):
            version = await self._versions.get(task.tenant_id, task.version_id)
            return await self._asking.run(task.tenant_id, partial(ask_ensemble, version, task))

    async def state(self) -> ExplainerState:
        reason = self._preloader.reason if self._preloading else None
        broken, active = self._preloader.broken
        note = f"{broken} of {active} active models cannot be read: see the explainer's log" if broken else None
        if broken and broken == active:
            reason = reason or note
        if self._closing:
            reason = "the explainer is shutting down"
        return ExplainerState(
            ready=reason is None,
            reason=reason or note,
            versions=len(self._versions),
            queued_records=self._batcher.pending,
            queue_limit=self._limits.queue,
        )

    async def close(self) -> None:
        self._closing = True
        for task in self._preloading:
            task.cancel()
        await self._batcher.close()
        self._versions.close()
        self._asking.close()
        if self._release is not None:
            await asyncio.to_thread(self._release)


def open_resident(
    settings: Settings, database: Database, registry: CollectorRegistry | None = None
) -> ResidentExplainer:
    """An explainer over the database and the artifact store; with a registry, its metrics are there."""
    keyring = open_keyring(settings, database)
    lease = timedelta(seconds=settings.budget_lease_seconds)
    ledger = Ledger(database, ChainKey(keyring.ledger_secret), lease=lease)
    ensembles = EnsembleDirectory(settings, database, ledger, keyring)
    source = VersionSource(database, ensembles, open_store(settings), settings.device)
    limits = BatchLimits(
        records=settings.explain_batch,
        queue=settings.explain_queue,
        wait=settings.explain_wait_ms / 1000,
        threads=settings.explain_threads,
    )
    metrics = None if registry is None else BatchMetrics(registry)
    active = partial(source.active, settings.resident_models)
    return ResidentExplainer(source.load, limits, settings.resident_models, metrics, active, ensembles.close)


def ask_ensemble(version: LoadedVersion, task: VerifyTask) -> VerifyAnswer:
    """The ensemble of the version is asked about records, and its votes are counted. It blocks."""
    target = None if task.target is None else target_codes(version.model, task.target, 1)
    judge = heard if target is None else partial(_judged, target=target)
    return ask_records(version.meter(), version.model.encoder.schema, task.records, Deadline(task.deadline), judge)


def _judged(said: NDArray[np.float64], target: NDArray[np.int64]) -> VerifiedRecord:
    """said (m, K), target (1,)"""
    known, yes = answered(said[:, None])[:, 0], votes(said[:, None], target)[:, 0]
    each = tuple(bool(vote) if spoke else None for vote, spoke in zip(yes, known, strict=True))
    bound = beta_lower_bound(int(yes.sum()), int((~yes).sum()))
    return replace(heard(said), votes=each, agreement=float(agreement(said[:, None], target)[0]), lower_bound=bound)
