"""Queries of explaining: which version of a model answers, and where a version and its ensemble are."""

from uuid import UUID

from sqlalchemy import Connection, Select, select

from app.db.service_tables import ModelRow, ModelVersion
from app.db.tables import EnsembleRow
from app.db.types import AnyRow


def find_active(connection: Connection, tenant_id: int, name: str) -> AnyRow | None:
    """version_id, number, model of the version that answers under the model's name; None if there is none."""
    statement = (
        _named()
        .where(ModelRow.active_version_id == ModelVersion.id)
        .where(ModelRow.tenant_id == tenant_id, ModelRow.name == name)
    )
    return connection.execute(statement).one_or_none()


def find_numbered(connection: Connection, tenant_id: int, name: str, number: int) -> AnyRow | None:
    """version_id, number, model of one version of the model, active or not."""
    statement = _named().where(
        ModelRow.tenant_id == tenant_id, ModelRow.name == name, ModelVersion.number == number
    )
    return connection.execute(statement).one_or_none()


def find_place(connection: Connection, tenant_id: int, version_id: UUID) -> AnyRow | None:
    """location, digest, ensemble_id, ensemble_version and ensemble_kind of a version of the tenant."""
    statement = (
        select(
            ModelVersion.location,
            ModelVersion.digest,
            ModelVersion.ensemble_id,
            ModelVersion.ensemble_version,
            EnsembleRow.kind.label("ensemble_kind"),
            EnsembleRow.name.label("ensemble_name"),
        )
        .join(EnsembleRow, EnsembleRow.id == ModelVersion.ensemble_id)
        .where(ModelVersion.tenant_id == tenant_id, EnsembleRow.tenant_id == tenant_id, ModelVersion.id == version_id)
    )
    return connection.execute(statement).one_or_none()


def _named() -> Select[UUID, int, str]:
    return select(
        ModelVersion.id.label("version_id"), ModelVersion.number, ModelRow.name.label("model")
    ).join(ModelRow, ModelRow.id == ModelVersion.model_id)
