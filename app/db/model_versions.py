"""Queries on models and their versions, as far as a training publishes them."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from app.db.service_tables import ModelRow, ModelVersion
from app.db.types import AnyRow, Document


@dataclass(frozen=True, slots=True)
class NewVersion:
    """What a training made of a model."""

    job_id: UUID
    location: str
    digest: str
    ensemble_id: int
    ensemble_version: str
    schema: Document
    classes: Document
    metrics: Document
    frontier: Document


def publish(
    connection: Connection, tenant_id: int, name: str, version: NewVersion, activate: bool, now: datetime
) -> UUID:
    """The id of the new version, numbered after those before it; a model's first version is active in any case."""
    model = _hold_model(connection, tenant_id, name, now)
    highest = select(func.coalesce(func.max(ModelVersion.number), 0)).where(ModelVersion.model_id == model.id)
    version_id = uuid4()
    connection.execute(
        insert(ModelVersion).values(
            id=version_id,
            tenant_id=tenant_id,
            model_id=model.id,
            number=connection.execute(highest).scalar_one() + 1,
            job_id=version.job_id,
            location=version.location,
            digest=version.digest,
            ensemble_id=version.ensemble_id,
            ensemble_version=version.ensemble_version,
            schema=version.schema,
            classes=version.classes,
            metrics=version.metrics,
            frontier=version.frontier,
            created_at=now,
        )
    )
    if activate or model.active_version_id is None:
        connection.execute(update(ModelRow).where(ModelRow.id == model.id).values(active_version_id=version_id))
    return version_id


def find_by_job(connection: Connection, tenant_id: int, job_id: UUID) -> AnyRow | None:
    """The version that a job published, or None."""
    table = ModelVersion.__table__
    return connection.execute(
        select(table).where(table.c.tenant_id == tenant_id, table.c.job_id == job_id)
    ).one_or_none()


def _hold_model(connection: Connection, tenant_id: int, name: str, now: datetime) -> AnyRow:
    """The model's row, made if it is not there, held so that two trainings do not take the same number."""
    insert_for = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    values = {"id": uuid4(), "tenant_id": tenant_id, "name": name, "created_at": now}
    connection.execute(insert_for(ModelRow).values(values).on_conflict_do_nothing(index_elements=["tenant_id", "name"]))
    table = ModelRow.__table__
    mine = select(table).where(table.c.tenant_id == tenant_id, table.c.name == name)
    return connection.execute(mine.with_for_update()).one()


def active(connection: Connection, tenant_id: int, name: str) -> UUID | None:
    """The id of the version that answers under the model's name, or None."""
    statement = select(ModelRow.active_version_id).where(ModelRow.tenant_id == tenant_id, ModelRow.name == name)
    return connection.execute(statement).scalar_one_or_none()
