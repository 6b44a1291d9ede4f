"""Decision records, one for every record that was explained: written in groups, read one by one and in pages."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from anyio import to_thread
from sqlalchemy import ColumnElement, Connection, Dialect, Select, column, func, insert, select, table
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.types import NullType, TypeDecorator

from app.db.engine import Database
from app.db.paging import PageOrder, RowPage, found, page
from app.db.tables import AnyRow, ExplanationRow, ModelRow, ModelVersion


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


Also: TypeAlias = Callable[[Connection], None] | None
Waiting: TypeAlias = tuple[Sequence[Decision], Also, "asyncio.Future[None]"]
FIELDS = tuple(Decision.__dataclass_fields__)
TEXTS = ("record", "order", "answer")
WRITTEN = table(
    "explanations",
    *(column(name, JsonText() if name in TEXTS else ExplanationRow.__table__.c[name].type) for name in FIELDS),
)

_ADD = insert(WRITTEN)
"""Built once: every request runs it."""


def add_decisions(connection: Connection, decisions: Sequence[Decision]) -> None:
    """Store decision records."""
    connection.execute(_ADD, [{name: getattr(one, name) for name in FIELDS} for one in decisions])


def find_decision(connection: Connection, tenant_id: int, explanation_id: UUID) -> AnyRow | None:
    """The whole row with `model`, `version` and `digest`, or None."""
    statement = _with_model(ExplanationRow.__table__.c).where(
        ExplanationRow.tenant_id == tenant_id, ExplanationRow.id == explanation_id
    )
    return connection.execute(statement).one_or_none()


def decisions_page(
    connection: Connection,
    tenant_id: int,
    model: str | None,
    status: str | None,
    order: PageOrder,
) -> RowPage:
    """The tenant's explanations without records and answers, newest first; of one model, of one status, or all."""
    columns = [part for part in ExplanationRow.__table__.c if part.name not in TEXTS]
    statement = _with_model(columns).where(ExplanationRow.tenant_id == tenant_id)
    if model is not None:
        statement = statement.where(ModelRow.name == model)
    if status is not None:
        statement = statement.where(ExplanationRow.status == status)
    return page(connection, ExplanationRow.__table__, statement, order)


def count_outcomes(connection: Connection, tenant_id: int, ensemble_id: int) -> list[AnyRow]:
    """(status, records, queries) of everything that was explained with the ensemble."""
    statement = (
        select(ExplanationRow.status, func.count().label("records"), func.sum(ExplanationRow.queries).label("queries"))
        .join(ModelVersion, ModelVersion.id == ExplanationRow.model_version_id)
        .where(ExplanationRow.tenant_id == tenant_id, ModelVersion.ensemble_id == ensemble_id)
        .group_by(ExplanationRow.status)
    )
    return list(connection.execute(statement))


def _with_model(columns: Iterable[ColumnElement[object]]) -> Select[*tuple[object, ...]]:
    named = ModelRow.name.label("model"), ModelVersion.number.label("version"), ModelVersion.digest.label("digest")
    statement: Select[*tuple[object, ...]] = select(*columns, *named)
    return statement.join(ModelVersion, ModelVersion.id == ExplanationRow.model_version_id).join(
        ModelRow, ModelRow.id == ModelVersion.model_id
    )


class DecisionWriter:
    """Group commit: the records of concurrent requests are written in one transaction.

    A durable commit takes milliseconds, however many rows it holds. While one is under way rows collect for the next,
    so nobody waits longer than for two commits, and a request that is alone is written at once. Used on one event loop.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[Waiting] = []
        self._turn = asyncio.Lock()

    async def write(self, decisions: Sequence[Decision], also: Also = None) -> None:
        """Returns when the rows of the request are durable, and what `also` writes in the same transaction."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((decisions, also, written))
        async with self._turn:
            # Whoever has the turn writes for all that wait; who was written for meanwhile finds nobody waiting.
            group, self._waiting = self._waiting, []
            if group:
                # The others of the group get their rows also when this caller hangs up.
                await asyncio.shield(asyncio.ensure_future(self._write(group)))
        await written

    async def _write(self, group: Sequence[Waiting]) -> None:
        errors = await to_thread.run_sync(self._commit, [(decisions, also) for decisions, also, _ in group])
        for (_, _, written), error in zip(group, errors, strict=True):
            if written.done():
                continue
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

    def _commit(self, group: Sequence[tuple[Sequence[Decision], Also]]) -> Sequence[Exception | None]:
        """None or an error for each request; where the rows of one are at fault the others are written without it."""
        try:
            with self._database.writing() as connection:
                add_decisions(connection, [row for rows, _ in group for row in rows])
                for _, also in group:
                    if also is not None:
                        also(connection)
        except (IntegrityError, DataError) as error:
            return [error] if len(group) == 1 else [self._commit([one])[0] for one in group]
        # Every request of the group waits for its rows: each is told why they are not there.
        except Exception as error:
            return [error] * len(group)
        return [None] * len(group)


def find_explanation(database: Database, tenant_id: int, explanation_id: UUID) -> AnyRow:
    row = database.read(find_decision, tenant_id, explanation_id)
    return found(row, f"explanation {explanation_id}: see GET /explanations")
