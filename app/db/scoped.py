"""The one way to read a tenant's rows: whatever else a query asks for, it begins here."""

from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, select


def owned(table: FromClause, tenant_id: int, *also: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """The rows of one tenant, whole, and further columns beside them."""
    return select(table, *also).where(table.c.tenant_id == tenant_id)
