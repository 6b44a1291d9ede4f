"""Decision records, as they are read."""

from uuid import UUID

from app.db import explanations
from app.db.engine import Database
from app.db.types import AnyRow
from app.errors import NotFoundError
from app.services.paging import PageOrder, RowPage, cut


def find_explanation(database: Database, tenant_id: int, explanation_id: UUID) -> AnyRow:
    with database.reading() as connection:
        row = explanations.find(connection, tenant_id, explanation_id)
    if row is None:
        raise NotFoundError(f"there is no explanation {explanation_id}: see GET /explanations")
    return row


def list_explanations(
    database: Database, tenant_id: int, model: str | None, status: str | None, order: PageOrder
) -> RowPage:
    """Newest first; of one model, of one status, or all."""
    with database.reading() as connection:
        rows = explanations.page(connection, tenant_id, model, status, order.after, order.limit + 1)
    return cut(rows, order.limit)
