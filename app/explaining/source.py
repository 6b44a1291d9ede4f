"""Where a resident explainer gets its versions: the row in the database, the folder in the artifact store."""

from functools import partial
from pathlib import Path
from uuid import UUID

from app.artifacts import ArtifactStore
from app.blackbox.meter import EnsembleMeter
from app.db import serving
from app.db.answers import AnswerOwner
from app.db.engine import Database
from app.db.types import AnyRow
from app.errors import NotFoundError
from app.explaining.versions import LoadedVersion
from app.ledger.ledger import Ledger
from models.artifact import load_ensemble_of, load_model
from models.errors import ArtifactError
from models.sealed import check_seal


class VersionSource:
    """Loads what a training published; it blocks."""

    def __init__(self, database: Database, ledger: Ledger, store: ArtifactStore, device: str = "cpu") -> None:
        self._database = database
        self._ledger = ledger
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
            raise ArtifactError(f"The model in '{row.location}' has the hash {found}, not {row.digest}.")
        return LoadedVersion(load_model(folder, self._device), partial(self._open_meter, tenant_id, row, folder))

    def _open_meter(self, tenant_id: int, row: AnyRow, folder: Path) -> EnsembleMeter:
        owner = AnswerOwner(tenant_id, row.ensemble_id, row.ensemble_version)
        return EnsembleMeter.local(load_ensemble_of(folder), self._database, self._ledger, owner)
