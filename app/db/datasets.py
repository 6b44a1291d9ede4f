"""Queries on data sets."""

from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, insert

from app.db.paging import Position, newest_first
from app.db.scoped import owned
from app.db.service_tables import DatasetRow
from app.db.types import AnyRow, Document


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


def add(connection: Connection, tenant_id: int, dataset_id: UUID, dataset: NewDataset, now: datetime) -> None:
    values = asdict(dataset) | {"id": dataset_id, "tenant_id": tenant_id, "created_at": now}
    connection.execute(insert(DatasetRow).values(values))


def find(connection: Connection, tenant_id: int, dataset_id: UUID) -> AnyRow | None:
    """The row (see `DatasetRow`), or None if the tenant has no such data set."""
    table = DatasetRow.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.id == dataset_id)).one_or_none()


def page(connection: Connection, tenant_id: int, after: Position | None, limit: int) -> list[AnyRow]:
    """The tenant's data sets, newest first."""
    table = DatasetRow.__table__
    return newest_first(connection, table, owned(table, tenant_id), after, limit)
