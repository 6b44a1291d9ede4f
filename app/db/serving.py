"""Queries of explaining: which version of a model answers, and where a version and its ensemble are."""

from uuid import UUID

from sqlalchemy import Connection, bindparam, select

from app.db.driver import Driver, Prepared
from app.db.service_tables import ModelRow, ModelVersion
from app.db.tables import EnsembleRow
from app.db.types import AnyRow

# Built once: every request asks for the active version, and to build the statement takes longer than to run it.
_NAMED = (
    select(ModelVersion.id.label("version_id"), ModelVersion.number, ModelRow.name.label("model"))
    .join(ModelRow, ModelRow.id == ModelVersion.model_id)
    .where(ModelRow.tenant_id == bindparam("tenant_id"), ModelRow.name == bindparam("name"))
)
_ACTIVE = _NAMED.where(ModelRow.active_version_id == ModelVersion.id)
_IS_ACTIVE = Prepared(_ACTIVE.where(ModelVersion.id == bindparam("version_id")))
_NUMBERED = _NAMED.where(ModelVersion.number == bindparam("number"))


def find_active(connection: Connection, tenant_id: int, name: str) -> AnyRow | None:
    """version_id, number, model of the version that answers under the model's name; None if there is none."""
    return connection.execute(_ACTIVE, {"tenant_id": tenant_id, "name": name}).one_or_none()


def is_active(driver: Driver, tenant_id: int, name: str, version_id: UUID) -> bool:
    """Whether the version answers under the model's name."""
    return driver.finds(_IS_ACTIVE, {"tenant_id": tenant_id, "name": name, "version_id": version_id})


def find_numbered(connection: Connection, tenant_id: int, name: str, number: int) -> AnyRow | None:
    """version_id, number, model of one version of the model, active or not."""
    return connection.execute(_NUMBERED, {"tenant_id": tenant_id, "name": name, "number": number}).one_or_none()


def list_active(connection: Connection, most: int) -> list[AnyRow]:
    """tenant_id and version_id of the active versions, of all tenants: an explainer serves them all. Newest first."""
    statement = (
        select(ModelRow.tenant_id, ModelVersion.id.label("version_id"))
        .join(ModelVersion, ModelVersion.id == ModelRow.active_version_id)
        .order_by(ModelVersion.created_at.desc())
        .limit(most)
    )
    return list(connection.execute(statement))


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
