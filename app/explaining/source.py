"""Where a resident explainer gets its versions: the row in the database, the folder in the artifact store."""

from functools import partial
from pathlib import Path
from threading import Lock
from uuid import UUID

from app.artifacts import ArtifactStore
from app.blackbox.meter import EnsembleMeter
from app.blackbox.registry import EnsembleRegistry
from app.db import serving
from app.db.engine import Database
from app.db.types import AnyRow
from app.errors import NotFoundError
from app.explaining.versions import Key, LoadedVersion
from models.artifact import load_ensemble_of, load_model
from models.errors import ArtifactError
from models.sealed import check_seal

READING = Lock()
"""One file is read at a time: numpy parses headers with `ast`, which CPython 3.11 cannot do in two threads at once
(gh-106905)."""


class VersionSource:
    """Loads what a training published; it blocks."""

    def __init__(
        self, database: Database, registry: EnsembleRegistry, store: ArtifactStore, device: str = "cpu"
    ) -> None:
        self._database = database
        self._registry = registry
        self._store = store
        self._device = device

    def load(self, tenant_id: int, version_id: UUID) -> LoadedVersion:
        """The tenant's version; its bytes must be those that were published."""
        with self._database.reading() as connection:
            row = serving.find_place(connection, tenant_id, version_id)
        if row is None:
            raise NotFoundError(f"there is no model version {version_id}: see GET /models")
        folder = self._store.fetch_folder(row.location)
        found = check_seal(folder)
        if found != row.digest:
            raise ArtifactError(f"The model in '{row.location}' has the hash {found}, but {row.digest} was published.")
        with READING:
            model = load_model(folder, self._device)
        if row.ensemble_kind == "remote":
            # Not kept: its row may change at any time, and the registry keeps what is open.
            schema = model.encoder.schema
            return LoadedVersion(model, partial(self._registry.remote, tenant_id, row.ensemble_id, schema))
        return LoadedVersion(model, _LocalMeter(self._registry, tenant_id, row, folder))

    def active(self, most: int) -> list[Key]:
        """The versions of all tenants that answer now, the newest first, at most so many."""
        with self._database.reading() as connection:
            return [(row.tenant_id, row.version_id) for row in serving.list_active(connection, most)]


class _LocalMeter:
    """The ensemble that was saved with the model: loaded when it is first asked, then kept."""

    def __init__(self, registry: EnsembleRegistry, tenant_id: int, row: AnyRow, folder: Path) -> None:
        self._registry = registry
        self._owner = (tenant_id, int(row.ensemble_id), str(row.ensemble_version))
        self._folder = folder
        self._meter: EnsembleMeter | None = None
        self._lock = Lock()

    def __call__(self) -> EnsembleMeter:
        with self._lock:
            if self._meter is None:
                with READING:
                    ensemble = load_ensemble_of(self._folder)
                self._meter = self._registry.local(ensemble, *self._owner)
            return self._meter
