"""Queries on ensembles."""

from datetime import datetime

from sqlalchemy import Connection, insert, update

from app.db.scoped import owned
from app.db.tables import EnsembleRow
from app.db.types import AnyRow, Document


def add(connection: Connection, tenant_id: int, name: str, version: str, now: datetime) -> int:
    """Register an ensemble; its id."""
    values = {"tenant_id": tenant_id, "name": name, "version": version, "created_at": now}
    return connection.execute(insert(EnsembleRow).values(values).returning(EnsembleRow.id)).scalar_one()


def find(connection: Connection, tenant_id: int, name: str) -> AnyRow | None:
    """The row (see `EnsembleRow`) of the tenant's ensemble, or None."""
    table = EnsembleRow.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.name == name)).one_or_none()


def find_by_id(connection: Connection, tenant_id: int, ensemble_id: int) -> AnyRow | None:
    """The row (see `EnsembleRow`) of the tenant's ensemble, or None."""
    table = EnsembleRow.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.id == ensemble_id)).one_or_none()


def lock(connection: Connection, tenant_id: int, name: str) -> AnyRow | None:
    """The row, held until the transaction ends."""
    table = EnsembleRow.__table__
    return connection.execute(owned(table, tenant_id).where(table.c.name == name).with_for_update()).one_or_none()


def page(connection: Connection, tenant_id: int, after: int, limit: int) -> list[AnyRow]:
    """The tenant's ensembles, oldest first."""
    table = EnsembleRow.__table__
    following = owned(table, tenant_id).where(table.c.id > after).order_by(table.c.id).limit(limit)
    return list(connection.execute(following).all())


def describe_remote(
    connection: Connection,
    tenant_id: int,
    ensemble_id: int,
    version: str,
    schema: Document,
    endpoints: Document,
    credentials: str | None,
) -> None:
    """Say what a registered ensemble is and where it is asked."""
    members = [member for endpoint in endpoints for member in endpoint["members"]]
    connection.execute(
        update(EnsembleRow)
        .where(EnsembleRow.tenant_id == tenant_id, EnsembleRow.id == ensemble_id)
        .values(
            kind="remote",
            version=version,
            members=members,
            classes=schema["classes"],
            schema=schema,
            endpoints=endpoints,
            credentials=credentials,
        )
    )


def set_version(connection: Connection, tenant_id: int, ensemble_id: int, version: str) -> bool:
    """Name the members that answer from now on; answers of the earlier version are no longer used."""
    statement = (
        update(EnsembleRow)
        .where(EnsembleRow.tenant_id == tenant_id, EnsembleRow.id == ensemble_id)
        .values(version=version)
    )
    return connection.execute(statement).rowcount == 1
