"""Data sets: an upload is read, described, and kept as it came, so that a training reads the same bytes.

What is inferred here (kinds, bounds, categories) is what the answer to the upload tells, and what a training keeps to.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO
from uuid import UUID, uuid4

from sqlalchemy import Connection, insert

from app.artifacts import ArtifactStore
from app.datasets.description import Question, describe
from app.datasets.reader import TableLimits
from app.db.engine import Database
from app.db.paging import PageOrder, RowPage, found, page
from app.db.tables import AnyRow, DatasetRow, Document, owned, utc_now
from app.settings import Settings
from models.data.protected import find_protected, protected_notice


@dataclass(frozen=True, slots=True)
class NewDataset:
    """What an upload was found to be."""

    name: str
    location: str
    digest: str
    rows: int
    label: str | None
    schema: Document
    class_counts: Document | None
    notices: list[str] = field(default_factory=list)


def add_dataset(connection: Connection, tenant_id: int, dataset_id: UUID, dataset: NewDataset, now: datetime) -> None:
    values = asdict(dataset) | {"id": dataset_id, "tenant_id": tenant_id, "created_at": now}
    connection.execute(insert(DatasetRow).values(values))


def find_row(connection: Connection, tenant_id: int, dataset_id: UUID) -> AnyRow | None:
    """The row (see `DatasetRow`), or None if the tenant has no such data set."""
    table = DatasetRow.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.id == dataset_id)).one_or_none()


def datasets_page(connection: Connection, tenant_id: int, order: PageOrder) -> RowPage:
    """The tenant's data sets, newest first."""
    table = DatasetRow.__table__
    return page(connection, table, owned(table, tenant_id), order)


BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class Upload:
    """A file, and what was said of it; `categories`: columns that are some, even if they look like numbers or dates."""

    file: BinaryIO
    name: str
    label: str | None = None
    categories: tuple[str, ...] = ()


def read_upload(store: ArtifactStore, limits: TableLimits, tenant_id: int, upload: Upload) -> NewDataset:
    """What the file holds, which is in the store by then; DataError says what is wrong with it."""
    with TemporaryDirectory(prefix="recourse-upload-") as folder:
        path = Path(folder) / "upload"
        digest = _copy(upload.file, path)
        found = describe(Question(path, limits, upload.label, upload.categories))
        location = f"datasets/{tenant_id}/{digest}{found.ending}"
        store.put_file(path, location)
    told = found.schema, found.class_counts, found.notices
    return NewDataset(upload.name, location, digest, found.rows, upload.label, *told)


def keep_dataset(connection: Connection, tenant_id: int, described: NewDataset) -> AnyRow:
    """The row of a new data set."""
    dataset_id = uuid4()
    add_dataset(connection, tenant_id, dataset_id, described, utc_now())
    return found(find_row(connection, tenant_id, dataset_id), f"data set {dataset_id}")


def table_limits(settings: Settings) -> TableLimits:
    """How large a data set the operator allows."""
    return TableLimits(settings.max_dataset_rows, settings.max_dataset_columns, settings.max_upload_bytes)


def find_dataset(database: Database, tenant_id: int, dataset_id: UUID) -> AnyRow:
    return found(database.read(find_row, tenant_id, dataset_id), f"data set {dataset_id}: see GET /datasets")


def told_by_names(schema: Mapping[str, Any], label: str | None) -> list[str]:
    """The notices of a data set of an earlier version, which kept none."""
    found = ((str(feature["name"]), find_protected(str(feature["name"]))) for feature in schema.get("features", ()))
    return [protected_notice(name, one) for name, one in found if one is not None and name != label]


def _copy(upload: BinaryIO, path: Path) -> str:
    """Write the upload to a file; its SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        while block := upload.read(BLOCK):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()
