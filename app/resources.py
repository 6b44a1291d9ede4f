"""What every handler may need, opened once for a process."""

from dataclasses import dataclass, field
from datetime import timedelta

from anyio import CapacityLimiter, to_thread

from app.artifacts import ArtifactStore, open_store
from app.auth.keyring import Keyring, open_keyring
from app.auth.principals import KeyCache
from app.concurrency import FairRoom, SharedThreads, StreamLimit
from app.db.engine import Database
from app.ensembles.directory import EnsembleDirectory
from app.explain.asking import AskService
from app.explain.contract import Explainer
from app.explain.decisions import DecisionWriter
from app.explain.service import ExplainService
from app.idempotency import IdempotentRequests
from app.ledger.chain import ChainKey
from app.ledger.chain_check import begin_chains
from app.ledger.ledger import Ledger
from app.metrics import Metrics
from app.settings import Settings
from app.train.queue import TrainingQueue

TABLES_AT_ONCE = 2
STREAM_THREADS = 4
"""Of all live streams and exports: a crowd of listeners or readers is served slowly, and holds up nobody else."""
UPLOADS_EACH = 8
"""Uploads of one tenant that are received or wait at the same time."""
HANDLER_THREADS = 40
"""What anyio gives to all handlers."""
HEALTH_THREADS = 8
ASKING_AT_ONCE = 64


@dataclass(frozen=True)
class Resources:
    """The parts that the service is made of; only the adapters behind `explainer` and `queue` differ by mode."""

    settings: Settings
    database: Database
    explainer: Explainer
    queue: TrainingQueue
    ledger: Ledger
    artifacts: ArtifactStore
    keyring: Keyring
    metrics: Metrics
    keys: KeyCache = field(repr=False)
    ensembles: EnsembleDirectory = field(repr=False)
    explain: ExplainService = field(repr=False)
    ask: AskService = field(repr=False)
    idempotent: IdempotentRequests = field(repr=False)
    streams: StreamLimit = field(repr=False)
    uploads: StreamLimit = field(repr=False)
    tables: SharedThreads = field(repr=False)
    """Tables that are read at the same time: each takes several times its size in memory."""
    stream_threads: SharedThreads = field(repr=False)
    handler_room: FairRoom = field(repr=False)
    """Hold a place while a thread of the handlers is held or waited for: whoever waits for it holds no thread."""
    health_threads: CapacityLimiter = field(repr=False)
    """Of the health checks alone: they answer when all other threads are taken."""

    async def close(self) -> None:
        """Close what was opened for this process; the database stays its owner's."""
        await self.explainer.close()
        await to_thread.run_sync(self.queue.close)
        await to_thread.run_sync(self.keys.write_uses)
        self.ensembles.close()
        self.tables.close()
        self.stream_threads.close()


def gather(
    settings: Settings,
    database: Database,
    explainer: Explainer,
    queue: TrainingQueue,
    metrics: Metrics | None = None,
) -> Resources:
    """The resources of one process."""
    keyring = open_keyring(settings, database)
    chain_key = ChainKey(keyring.ledger_secret)
    begin_chains(database, chain_key)
    ledger = Ledger(database, chain_key, lease=timedelta(seconds=settings.budget_lease_seconds))
    ensembles = EnsembleDirectory(settings, database, ledger, keyring)
    # Threads of their own wait for remote black boxes: not those that everything else needs.
    asking = SharedThreads(ASKING_AT_ONCE)
    return Resources(
        settings=settings,
        database=database,
        explainer=explainer,
        queue=queue,
        ledger=ledger,
        artifacts=open_store(settings),
        keyring=keyring,
        metrics=metrics or Metrics(),
        keys=KeyCache(database, keyring, settings.key_cache_seconds),
        ensembles=ensembles,
        explain=ExplainService(settings, database, explainer, DecisionWriter(database)),
        ask=AskService(settings, database, explainer, ensembles, asking),
        idempotent=IdempotentRequests(database, settings.idempotency_open_seconds),
        streams=StreamLimit(settings.max_streams),
        uploads=StreamLimit(UPLOADS_EACH, "uploads are under way"),
        tables=SharedThreads(TABLES_AT_ONCE),
        stream_threads=SharedThreads(STREAM_THREADS),
        handler_room=FairRoom(HANDLER_THREADS),
        health_threads=CapacityLimiter(HEALTH_THREADS),
    )
