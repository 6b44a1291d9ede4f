"""Queries on models and their versions, as they are shown and switched; published they are in model_versions.py."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Select, select, update

from app.db.paging import Position, newest_first
from app.db.scoped import owned
from app.db.service_tables import ModelRow, ModelVersion
from app.db.tables import EnsembleRow
from app.db.types import AnyRow


def find(connection: Connection, tenant_id: int, name: str) -> AnyRow | None:
    """The model's row and `active_version`, the number of the version that answers."""
    return connection.execute(_with_number(tenant_id).where(ModelRow.name == name)).one_or_none()


def page(connection: Connection, tenant_id: int, after: Position | None, limit: int) -> list[AnyRow]:
    """The tenant's models as in `find`, newest first."""
    return newest_first(connection, ModelRow.__table__, _with_number(tenant_id), after, limit)


def versions(connection: Connection, tenant_id: int, model_id: UUID, below: int | None, limit: int) -> list[AnyRow]:
    """A model's versions with their ensemble's name, the newest first, numbered below `below`."""
    table = ModelVersion.__table__
    statement = (
        owned(table, tenant_id, EnsembleRow.name.label("ensemble"))
        .join(EnsembleRow, EnsembleRow.id == table.c.ensemble_id)
        .where(table.c.model_id == model_id)
        .order_by(table.c.number.desc())
        .limit(limit)
    )
    if below is not None:
        statement = statement.where(table.c.number < below)
    return list(connection.execute(statement).all())


def activate(connection: Connection, tenant_id: int, name: str, number: int) -> bool:
    """Let the version of that number answer from now on; False if there is none."""
    model = select(ModelRow.id).where(ModelRow.tenant_id == tenant_id, ModelRow.name == name).scalar_subquery()
    table = ModelVersion.__table__
    chosen = owned(table, tenant_id).where(table.c.model_id == model, table.c.number == number)
    version = connection.execute(chosen).one_or_none()
    if version is None:
        return False
    connection.execute(
        update(ModelRow)
        .where(ModelRow.tenant_id == tenant_id, ModelRow.name == name)
        .values(active_version_id=version.id)
    )
    _serve_ensemble(connection, version)
    return True


def _serve_ensemble(connection: Connection, version: AnyRow) -> None:
    """The ensemble that was trained with the active version is the one that is asked; a registered one stays."""
    values = {"version": version.ensemble_version, "classes": version.classes, "schema": version.schema}
    members = (version.metrics or {}).get("members")
    connection.execute(
        update(EnsembleRow)
        .where(EnsembleRow.tenant_id == version.tenant_id, EnsembleRow.id == version.ensemble_id)
        .where(EnsembleRow.kind == "local")
        .values(values if members is None else values | {"members": list(members)})
    )


def newest_of_ensemble(connection: Connection, tenant_id: int, ensemble_id: int, version: str) -> UUID | None:
    """The newest model version whose artifact holds that version of a local ensemble."""
    statement = (
        select(ModelVersion.id)
        .where(ModelVersion.tenant_id == tenant_id, ModelVersion.ensemble_id == ensemble_id)
        .where(ModelVersion.ensemble_version == version)
        .order_by(ModelVersion.created_at.desc())
        .limit(1)
    )
    return connection.execute(statement).scalar_one_or_none()


def _with_number(tenant_id: int) -> Select[*tuple[Any, ...]]:
    return owned(ModelRow.__table__, tenant_id, ModelVersion.number.label("active_version")).outerjoin(
        ModelVersion, ModelVersion.id == ModelRow.active_version_id
    )
