"""Queries on explanations: the decision record of every record that was explained."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Dialect, Select, column, func, insert, select, table
from sqlalchemy.types import NullType, TypeDecorator

from app.db.driver import Driver, Prepared
from app.db.paging import Position, newest_first
from app.db.service_tables import Explanation, ModelRow, ModelVersion
from app.db.types import AnyRow


class JsonText(TypeDecorator[bytes]):
    """JSON that is written already: the column takes the text as it is."""

    impl = NullType
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> str | None:
        return None if value is None else value.decode()


@dataclass(frozen=True, slots=True)
class Decision:
    """One row; record, order and answer are JSON texts."""

    id: UUID
    tenant_id: int
    model_version_id: UUID
    request_id: str
    position: int
    target: str
    record: bytes
    order: bytes
    status: str
    answer: bytes
    queries: int
    created_at: datetime


FIELDS = tuple(Decision.__dataclass_fields__)
TEXTS = ("record", "order", "answer")
WRITTEN = table(
    "explanations",
    *(column(name, JsonText() if name in TEXTS else Explanation.__table__.c[name].type) for name in FIELDS),
)

_ADD = Prepared(insert(WRITTEN), FIELDS)


def add(driver: Driver, decisions: Sequence[Decision]) -> None:
    """Store decision records."""
    driver.write(_ADD, [{name: getattr(one, name) for name in FIELDS} for one in decisions])


def find(connection: Connection, tenant_id: int, explanation_id: UUID) -> AnyRow | None:
    """The whole row with `model`, `version` and `digest`, or None."""
    statement = _with_model(Explanation.__table__.c).where(
        Explanation.tenant_id == tenant_id, Explanation.id == explanation_id
    )
    return connection.execute(statement).one_or_none()


def page(
    connection: Connection,
    tenant_id: int,
    model: str | None,
    status: str | None,
    after: Position | None,
    limit: int,
) -> list[AnyRow]:
    """The tenant's explanations without records and answers, newest first."""
    columns = [part for part in Explanation.__table__.c if part.name not in TEXTS]
    statement = _with_model(columns).where(Explanation.tenant_id == tenant_id)
    if model is not None:
        statement = statement.where(ModelRow.name == model)
    if status is not None:
        statement = statement.where(Explanation.status == status)
    return newest_first(connection, Explanation.__table__, statement, after, limit)


def outcomes(connection: Connection, tenant_id: int, ensemble_id: int) -> list[AnyRow]:
    """(status, records, queries) of everything that was explained with the ensemble."""
    statement = (
        select(Explanation.status, func.count().label("records"), func.sum(Explanation.queries).label("queries"))
        .join(ModelVersion, ModelVersion.id == Explanation.model_version_id)
        .where(Explanation.tenant_id == tenant_id, ModelVersion.ensemble_id == ensemble_id)
        .group_by(Explanation.status)
    )
    return list(connection.execute(statement))


def _with_model(columns: Iterable[ColumnElement[object]]) -> Select[*tuple[object, ...]]:
    named = ModelRow.name.label("model"), ModelVersion.number.label("version"), ModelVersion.digest.label("digest")
    statement: Select[*tuple[object, ...]] = select(*columns, *named)
    return statement.join(ModelVersion, ModelVersion.id == Explanation.model_version_id).join(
        ModelRow, ModelRow.id == ModelVersion.model_id
    )
