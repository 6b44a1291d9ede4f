"""Data sets: an upload is read, described, and kept as it came, so that a training reads the same bytes.

What is inferred here (kinds, bounds, categories) is what the answer to the upload tells, and what a training keeps to.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO
from uuid import UUID, uuid4

import pandas as pd
from sqlalchemy import Connection, insert

from app.artifacts import ArtifactStore
from app.datasets.reader import TableLimits, read_table
from app.db.engine import Database
from app.db.paging import PageOrder, RowPage, found, page
from app.db.tables import AnyRow, DatasetRow, Document, owned, utc_now
from app.settings import Settings
from models.data.columns import Inspection, check_columns, inspect_columns
from models.data.frames import plain_values
from models.data.infer import infer_features, infer_schema
from models.data.protected import find_protected, protected_notice, protected_of
from models.data.records import category_text
from models.data.schema import Feature


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
        table = read_table(path, limits)
        location = f"datasets/{tenant_id}/{digest}{table.ending}"
        described = _describe(table.frame, upload, location, digest)
        store.put_file(path, location)
    return described


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


def _describe(frame: pd.DataFrame, upload: Upload, location: str, digest: str) -> NewDataset:
    """Without a label there are features only, and no classes."""
    name, label, rows = upload.name, upload.label, len(frame)
    said = {column: {"kind": "categorical"} for column in upload.categories}
    seen = inspect_columns(frame, label if label in frame.columns else None, said)
    frame, overrides = frame.drop(columns=list(seen.left_out)), {"features": said}
    if label is None:
        check_columns(frame, upload.categories, _way_out, infer_features)
        features = infer_features(frame, overrides)
        schema: dict[str, object] = {"features": [feature.to_json() for feature in features]}
        return NewDataset(name, location, digest, rows, None, schema, None, _notices(features, seen))
    check_columns(frame, {label, *upload.categories}, _way_out, lambda rest: infer_schema(rest, label))
    inferred = infer_schema(frame, label, overrides)
    counts = _count(frame[label], inferred.classes)
    notices = _notices(inferred.features, seen)
    return NewDataset(name, location, digest, rows, label, inferred.to_json(), counts, notices)


def _notices(features: Iterable[Feature], seen: Inspection) -> list[str]:
    """What to know before training: protected attributes, columns that were left out, codes for missing values."""
    found = ((feature.name, protected_of(feature)) for feature in features)
    return [*(protected_notice(name, one) for name, one in found if one is not None), *seen.sentences]


def told_by_names(schema: Mapping[str, Any], label: str | None) -> list[str]:
    """The notices of a data set of an earlier version, which kept none."""
    found = ((str(feature["name"]), find_protected(str(feature["name"]))) for feature in schema.get("features", ()))
    return [protected_notice(name, one) for name, one in found if one is not None and name != label]


def _way_out(column: str) -> str:
    return f"send the form field categories={column} if it is a category"


def _count(labels: pd.Series, classes: tuple[str, ...]) -> dict[str, int]:
    counts = pd.Series([category_text(value) for value in plain_values(labels)]).value_counts()
    return {name: int(counts[name]) for name in classes}


def _copy(upload: BinaryIO, path: Path) -> str:
    """Write the upload to a file; its SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        while block := upload.read(BLOCK):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()
