"""Queries on budgets: the limit that a tenant sets on an ensemble."""

from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from app.db.tables import Budget, EnsembleRow, Period
from app.db.types import AnyRow


def find(connection: Connection, tenant_id: int, ensemble_id: int) -> AnyRow | None:
    """The row (see `Budget`), or None."""
    table = Budget.__table__
    statement = select(table).where(table.c.tenant_id == tenant_id, table.c.ensemble_id == ensemble_id)
    return connection.execute(statement).one_or_none()


def page(connection: Connection, tenant_id: int, after: int, limit: int) -> list[AnyRow]:
    """ensemble_id and name of the tenant's ensembles that have a budget, in the order of their ids."""
    statement = (
        select(Budget.ensemble_id, EnsembleRow.name)
        .join(EnsembleRow, EnsembleRow.id == Budget.ensemble_id)
        .where(Budget.tenant_id == tenant_id, EnsembleRow.tenant_id == tenant_id, Budget.ensemble_id > after)
        .order_by(Budget.ensemble_id)
        .limit(limit)
    )
    return list(connection.execute(statement).all())


def lock(connection: Connection, tenant_id: int, ensemble_id: int) -> AnyRow | None:
    """The row, held until the transaction ends, so that a limit cannot change while its account is being made."""
    table = Budget.__table__
    statement = select(table).where(table.c.tenant_id == tenant_id, table.c.ensemble_id == ensemble_id)
    return connection.execute(statement.with_for_update()).one_or_none()


def put(
    connection: Connection, tenant_id: int, ensemble_id: int, period: Period, query_limit: int, now: datetime
) -> None:
    """Make or change the budget; its row is held until the transaction ends."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    changed = {"period": period.value, "query_limit": query_limit, "updated_at": now}
    connection.execute(
        insert(Budget)
        .values({"tenant_id": tenant_id, "ensemble_id": ensemble_id} | changed)
        .on_conflict_do_update(index_elements=["tenant_id", "ensemble_id"], set_=changed)
    )
