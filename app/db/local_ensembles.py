"""Queries on the ensembles that the service trains itself: one a model, under the model's name."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects import postgresql, sqlite

from app.db.tables import EnsembleRow
from app.db.types import Document


def ensure(
    connection: Connection, tenant_id: int, name: str, job_id: UUID, members: Document, classes: Document, now: datetime
) -> int | None:
    """The id of the local ensemble of that name, made if it is not there; None if the name is a remote one's."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    values = {
        "tenant_id": tenant_id,
        "name": name,
        "version": f"unpublished {job_id}",
        "created_at": now,
        "kind": "local",
        "members": members,
        "classes": classes,
    }
    connection.execute(insert(EnsembleRow).values(values).on_conflict_do_nothing(index_elements=["tenant_id", "name"]))
    mine = select(EnsembleRow.id).where(
        EnsembleRow.tenant_id == tenant_id, EnsembleRow.name == name, EnsembleRow.kind == "local"
    )
    return connection.execute(mine).scalar_one_or_none()


def replace_members(
    connection: Connection,
    tenant_id: int,
    ensemble_id: int,
    version: str,
    members: Document,
    classes: Document,
    schema: Document,
) -> None:
    """From now on these answer; what was bought from others is no longer used."""
    connection.execute(
        update(EnsembleRow)
        .where(EnsembleRow.tenant_id == tenant_id, EnsembleRow.id == ensemble_id)
        .values(version=version, members=members, classes=classes, schema=schema)
    )
