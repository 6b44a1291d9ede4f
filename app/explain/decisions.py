"""Group commit: the decision records of concurrent requests are written in one transaction.

A durable commit takes milliseconds, however many rows it holds. While one is under way rows collect for the next, so
nobody waits longer than for two commits, and one that is alone is written at once. The same transaction sees whether
the version that answered is still the active one: a switch counts from the moment that it is committed, whoever made
it, and to ask costs no transaction of its own.

Queries on explanations: the decision record of every record that was explained.

Decision records, as they are read.
"""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Dialect, Select, column, func, insert, select, table
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.types import NullType, TypeDecorator

from app.db.driver import Driver, Prepared
from app.db.engine import Database
from app.db.paging import PageOrder, RowPage, found, page
from app.db.tables import AnyRow, Explanation, ModelRow, ModelVersion
from app.registry import queries


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


def add_decisions(driver: Driver, decisions: Sequence[Decision]) -> None:
    """Store decision records."""
    driver.write(_ADD, [{name: getattr(one, name) for name in FIELDS} for one in decisions])


def find_decision(connection: Connection, tenant_id: int, explanation_id: UUID) -> AnyRow | None:
    """The whole row with `model`, `version` and `digest`, or None."""
    statement = _with_model(Explanation.__table__.c).where(
        Explanation.tenant_id == tenant_id, Explanation.id == explanation_id
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
    columns = [part for part in Explanation.__table__.c if part.name not in TEXTS]
    statement = _with_model(columns).where(Explanation.tenant_id == tenant_id)
    if model is not None:
        statement = statement.where(ModelRow.name == model)
    if status is not None:
        statement = statement.where(Explanation.status == status)
    return page(connection, Explanation.__table__, statement, order)


def count_outcomes(connection: Connection, tenant_id: int, ensemble_id: int) -> list[AnyRow]:
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


@dataclass(frozen=True, slots=True)
class Entry:
    """The rows of one request; `model`: only if their version is the active one of that name."""

    decisions: Sequence[Decision]
    model: str | None

    @property
    def must_be_active(self) -> tuple[int, str, UUID] | None:
        """Tenant, model and version."""
        first = self.decisions[0]
        return None if self.model is None else (first.tenant_id, self.model, first.model_version_id)


Waiting: TypeAlias = tuple[Entry, "asyncio.Future[bool]"]


class DecisionWriter:
    """Used on one event loop; it writes in a thread of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[Waiting] = []
        self._writing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")

    async def write(self, decisions: Sequence[Decision], model: str | None = None) -> bool:
        """Returns when the rows are durable; False: they are not, because another version is active under the name."""
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((Entry(decisions, model), written))
        if not self._writing:
            self._begin()
        return await written

    def _begin(self) -> None:
        """All that wait, in the thread."""
        group, self._waiting, self._writing = self._waiting, [], True
        self._thread.submit(self._write, asyncio.get_running_loop(), group)

    def _write(self, loop: asyncio.AbstractEventLoop, group: Sequence[Waiting]) -> None:
        outcomes = self._commit([entry for entry, _ in group])
        # Past the future of the executor, which would take the event loop two more rounds.
        loop.call_soon_threadsafe(self._end, group, outcomes)

    def _end(self, group: Sequence[Waiting], outcomes: Sequence[Exception | bool]) -> None:
        """Each is told; then those that came meanwhile have their turn."""
        for (_, written), outcome in zip(group, outcomes, strict=True):
            if written.done():
                continue
            if isinstance(outcome, Exception):
                written.set_exception(outcome)
            else:
                written.set_result(outcome)
        self._writing = False
        if self._waiting:
            self._begin()

    def _commit(self, group: Sequence[Entry]) -> Sequence[Exception | bool]:
        """One outcome a request; where its rows are at fault the others are written without it."""
        try:
            with self._database.driving() as driver:
                due = _due(driver, group)
                rows = [row for entry, is_due in zip(group, due, strict=True) if is_due for row in entry.decisions]
                if rows:
                    add_decisions(driver, rows)
        except (IntegrityError, DataError) as error:
            return [error] if len(group) == 1 else [self._commit([entry])[0] for entry in group]
        # Every request of the group waits for its rows: each is told why they are not there.
        except Exception as error:
            return [error] * len(group)
        return due


def _due(driver: Driver, group: Sequence[Entry]) -> list[bool]:
    """Whether each entry is to be written; every version is looked up once."""
    asked = {version for entry in group if (version := entry.must_be_active) is not None}
    active = {version for version in asked if queries.is_active(driver, *version)}
    return [entry.must_be_active is None or entry.must_be_active in active for entry in group]


def find_explanation(database: Database, tenant_id: int, explanation_id: UUID) -> AnyRow:
    row = database.read(find_decision, tenant_id, explanation_id)
    return found(row, f"explanation {explanation_id}: see GET /explanations")
