"""Queries on models and their versions: list and switch them, publish a new one, find the one that answers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, Select, bindparam, func, insert, select, update

from app.db.engine import insert_or_ignore
from app.db.ledger_tables import EnsembleRow
from app.db.paging import PageOrder, RowPage, found, numbered_page, page
from app.db.tables import AnyRow, Document, ModelRow, ModelVersion, owned
from app.errors import NotFoundError
from models.data.policy import Policy
from models.data.policy_checks import check_policy
from models.data.schema import Schema


def find_model(connection: Connection, tenant_id: int, name: str) -> AnyRow:
    """The model's row and `active_version`, the number of the version that answers; NotFoundError if there is none."""
    row = connection.execute(_with_number(tenant_id).where(ModelRow.name == name)).one_or_none()
    return found(row, f"model {name!r}: see GET /models")


def models_page(connection: Connection, tenant_id: int, order: PageOrder) -> RowPage:
    """The tenant's models as in `find_model`, newest first."""
    return page(connection, ModelRow.__table__, _with_number(tenant_id), order)


def versions_page(connection: Connection, tenant_id: int, model_id: UUID, order: PageOrder) -> RowPage:
    """A model's versions with their ensemble's name, the newest first."""
    table = ModelVersion.__table__
    statement = (
        owned(table, tenant_id, EnsembleRow.name.label("ensemble"))
        .join(EnsembleRow, EnsembleRow.id == table.c.ensemble_id)
        .where(table.c.model_id == model_id)
    )
    return numbered_page(connection, ModelVersion.number, statement, order, newest=True)


def activate(connection: Connection, tenant_id: int, name: str, number: int) -> AnyRow:
    """The model after the switch to the version; requests that have begun keep the version that they began with."""
    model, table = find_model(connection, tenant_id, name), ModelVersion.__table__
    chosen = owned(table, tenant_id).where(table.c.model_id == model.id, table.c.number == number)
    version = connection.execute(chosen).one_or_none()
    if version is None:
        raise NotFoundError(f"model {name!r} has no version {number}: see GET /models/{name}")
    connection.execute(update(ModelRow).where(ModelRow.id == model.id).values(active_version_id=version.id))
    _serve_ensemble(connection, version)
    return find_model(connection, tenant_id, name)


def set_policy(connection: Connection, tenant_id: int, name: str, document: Document | None) -> AnyRow:
    """The model after its action policy was replaced; None: each version has the one that it was trained with

    SchemaError where the policy does not fit the active version.
    """
    find_model(connection, tenant_id, name)
    policy = None if document is None else Policy.from_json(document)
    schema = active_schema(connection, tenant_id, name)
    if policy is not None and schema is not None:
        check_policy(Schema.from_json(schema), policy)
    keep_policy(connection, tenant_id, name, policy)
    return find_model(connection, tenant_id, name)


def keep_policy(connection: Connection, tenant_id: int, name: str, policy: Policy | None) -> None:
    """The same for a policy that is known to fit"""
    mine = update(ModelRow).where(ModelRow.tenant_id == tenant_id, ModelRow.name == name)
    connection.execute(mine.values(policy=None if policy is None else policy.to_json()))


def active_schema(connection: Connection, tenant_id: int, name: str) -> Document | None:
    """The schema of the version that answers under the model's name, as JSON; None if there is none."""
    statement = (
        select(ModelVersion.schema)
        .join(ModelRow, ModelRow.active_version_id == ModelVersion.id)
        .where(ModelRow.tenant_id == tenant_id, ModelRow.name == name)
    )
    return connection.execute(statement).scalar_one_or_none()


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


def _hold_model(connection: Connection, tenant_id: int, name: str, now: datetime) -> AnyRow:
    """The model's row, made if it is not there, held so that two trainings do not take the same number."""
    insert_or_ignore(connection, ModelRow, id=uuid4(), tenant_id=tenant_id, name=name, created_at=now)
    table = ModelRow.__table__
    mine = select(table).where(table.c.tenant_id == tenant_id, table.c.name == name)
    return connection.execute(mine.with_for_update()).one()


def active(connection: Connection, tenant_id: int, name: str) -> UUID | None:
    """The id of the version that answers under the model's name, or None."""
    statement = select(ModelRow.active_version_id).where(ModelRow.tenant_id == tenant_id, ModelRow.name == name)
    return connection.execute(statement).scalar_one_or_none()


# Built once: every request asks for the active version, and to build the statement takes longer than to run it.
_ACTIVE = (
    select(ModelVersion.id.label("version_id"), ModelVersion.number, ModelRow.name.label("model"), ModelRow.policy)
    .join(ModelRow, ModelRow.active_version_id == ModelVersion.id)
    .where(ModelRow.tenant_id == bindparam("tenant_id"), ModelRow.name == bindparam("name"))
)


def find_active(connection: Connection, tenant_id: int, name: str) -> AnyRow | None:
    """version_id, number, model and policy of the version that answers under the model's name, or None."""
    return connection.execute(_ACTIVE, {"tenant_id": tenant_id, "name": name}).one_or_none()


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
