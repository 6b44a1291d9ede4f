"""Queries on ensembles."""

from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from app.db.tables import EnsembleRow
from app.db.types import AnyRow


def add(connection: Connection, tenant_id: int, name: str, version: str, now: datetime) -> int:
    """Register an ensemble; its id."""
    values = {"tenant_id": tenant_id, "name": name, "version": version, "created_at": now}
    return connection.execute(insert(EnsembleRow).values(values).returning(EnsembleRow.id)).scalar_one()


def find(connection: Connection, tenant_id: int, name: str) -> AnyRow | None:
    """The row (see `EnsembleRow`) of the tenant's ensemble, or None."""
    table = EnsembleRow.__table__
    return connection.execute(select(table).where(table.c.tenant_id == tenant_id, table.c.name == name)).one_or_none()


def set_version(connection: Connection, tenant_id: int, ensemble_id: int, version: str) -> bool:
    """Name the members that answer from now on; answers of the earlier version are no longer used."""
    statement = (
        update(EnsembleRow)
        .where(EnsembleRow.tenant_id == tenant_id, EnsembleRow.id == ensemble_id)
        .values(version=version)
    )
    return connection.execute(statement).rowcount == 1
