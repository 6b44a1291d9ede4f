"""The resident explainer of a process, from its settings. Only embedded mode and workers import it: it loads torch."""

from datetime import timedelta
from functools import partial

from prometheus_client import CollectorRegistry

from app.artifacts import open_store
from app.blackbox.registry import EnsembleRegistry
from app.db.engine import Database
from app.explaining.batch_metrics import BatchMetrics
from app.explaining.batcher import BatchLimits
from app.explaining.resident import ResidentExplainer
from app.explaining.source import VersionSource
from app.keys import open_keyring
from app.ledger.ledger import Ledger
from app.settings import Settings


def open_resident(
    settings: Settings, database: Database, registry: CollectorRegistry | None = None
) -> ResidentExplainer:
    """An explainer over the database and the artifact store; with a registry, its metrics are there."""
    ledger = Ledger(database, lease=timedelta(seconds=settings.budget_lease_seconds))
    ensembles = EnsembleRegistry(settings, database, ledger, open_keyring(settings))
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
