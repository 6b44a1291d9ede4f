"""Group commit: concurrent requests share transactions; what is wrong with one is told to that one alone."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import IntegrityError, OperationalError

from app.db.engine import Database
from app.db.tables import ExplanationRow, utc_now
from app.explain.decisions import Decision, DecisionWriter
from tests.app.conftest import Customer
from tests.app.explain.test_service import publish

REQUESTS = 30


class CountedDatabase:
    """The database, which counts its transactions and may be away."""

    def __init__(self, database: Database) -> None:
        self._database, self.transactions, self.away = database, 0, False

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        self.transactions += 1
        if self.away:
            raise OperationalError(None, None, Exception("away"))
        with self._database.writing() as connection:
            yield connection


class Desk:
    """A tenant whose model has a version, and the writer."""

    def __init__(self, database: Database, customer: Customer) -> None:
        self.tenant_id, self.version_id = customer.tenant_id, publish(database, customer)
        self.database, self.counted = database, CountedDatabase(database)
        self.writer = DecisionWriter(self.counted)  # type: ignore[arg-type]

    def decision(self, identity: UUID | None = None) -> Decision:
        return Decision(
            id=identity or uuid4(),
            tenant_id=self.tenant_id,
            model_version_id=self.version_id,
            request_id=uuid4().hex,
            position=0,
            target="yes",
            record=b'{"income":1}',
            order=b"{}",
            status="valid",
            answer=b"{}",
            queries=0,
            created_at=utc_now(),
        )

    async def write_all(self, entries: Sequence[Sequence[Decision]]) -> list[BaseException | None]:
        return await asyncio.gather(*(self.writer.write(rows) for rows in entries), return_exceptions=True)

    def written(self) -> int:
        with self.database.reading() as connection:
            statement = select(func.count()).where(ExplanationRow.tenant_id == self.tenant_id)
            return connection.execute(statement).scalar_one()


@pytest.fixture
def desk(database: Database, customer: Customer) -> Desk:
    return Desk(database, customer)


def test_requests_at_once_share_transactions(desk: Desk) -> None:
    found = asyncio.run(desk.write_all([[desk.decision(), desk.decision()] for _ in range(REQUESTS)]))
    assert found == [None] * REQUESTS
    assert desk.written() == 2 * REQUESTS
    # The first goes alone, all others wait for it.
    assert desk.counted.transactions == 2


def test_rows_at_fault_are_told_to_their_request_alone(desk: Desk) -> None:
    twice = desk.decision()
    found = asyncio.run(desk.write_all([[desk.decision()], [twice], [desk.decision(), twice], [desk.decision()]]))
    assert [one is None for one in found] == [True, True, False, True]
    assert isinstance(found[2], IntegrityError)
    # Nothing of the request at fault, either.
    assert desk.written() == 3


def test_a_database_that_is_away_is_told_to_all_and_the_next_are_written(desk: Desk) -> None:
    async def run() -> None:
        desk.counted.away = True
        found = await desk.write_all([[desk.decision()] for _ in range(REQUESTS)])
        assert all(isinstance(one, OperationalError) for one in found)
        desk.counted.away = False
        await desk.writer.write([desk.decision()])

    asyncio.run(run())
    assert desk.written() == 1


def test_who_stops_waiting_leaves_the_others_their_rows(desk: Desk) -> None:
    async def run() -> None:
        writing = [asyncio.create_task(desk.writer.write([desk.decision()])) for _ in range(4)]
        await asyncio.sleep(0)
        writing[0].cancel()
        writing[2].cancel()
        found = await asyncio.gather(*writing, return_exceptions=True)
        assert [one is None for one in found] == [False, True, False, True]
        await desk.writer.write([desk.decision()])

    asyncio.run(run())
