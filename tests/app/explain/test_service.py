"""POST /explain below HTTP: a request keeps the version that was active when it began, and its record is written."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from app.db.engine import Database
from app.db.tables import ExplanationRow, utc_now
from app.errors import NotFoundError
from app.explain import decisions
from app.explain.contract import ExplainAnswer, ExplainRequest, ExplainTask
from app.registry import queries
from app.registry.queries import NewVersion
from app.resources import gather
from app.settings import Settings
from app.train import jobs
from tests.app.conftest import Customer
from tests.fakes.service import Bell, SilentExplainer
from tests.patience import BOUND, until


def publish(database: Database, customer: Customer) -> UUID:
    """The next version of `loans`, active."""
    job_id, now = uuid4(), utc_now()
    with database.writing() as connection:
        jobs.add_job(connection, customer.tenant_id, job_id, "loans", {}, now)
        version = NewVersion(job_id, "models/x", uuid4().hex, customer.ensemble_id, "1", {}, ["no", "yes"], {}, [])
        return queries.publish(connection, customer.tenant_id, "loans", version, True, now)


class Engine(SilentExplainer):
    """It takes a moment; it knows what it began and was told to drop, and fails for one version."""

    def __init__(self, seconds: float = 0.02) -> None:
        super().__init__()
        self.seconds, self.begun, self.dropped = seconds, list[UUID](), list[UUID]()
        self.fails_for: UUID | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def explain(self, task: ExplainTask) -> ExplainAnswer:
        self.begun.append(task.version_id)
        try:
            await asyncio.sleep(self.seconds)
            await self.go.wait()
        except asyncio.CancelledError:
            self.dropped.append(task.version_id)
            raise
        if task.version_id == self.fails_for:
            raise RuntimeError("no memory")
        return await super().explain(task)


class Lender:
    """A tenant with the model `loans`, and the service around an engine."""

    def __init__(self, database: Database, customer: Customer, var_dir: Path) -> None:
        url = SecretStr(database.engine.url.render_as_string(hide_password=False))
        self.database, self.customer, self.engine = database, customer, Engine()
        self.first = self.publish()
        self.resources = gather(Settings(var_dir=var_dir, database_url=url), database, self.engine, Bell())

    def publish(self) -> UUID:
        return publish(self.database, self.customer)

    async def explain(self, name: str = "loans", strangers: int = 0, max_queries: int = 0) -> int:
        """The number of the version that answers."""
        asked = {"model": name, "records": [{"income": 1}], "target": "yes", "robustness": {"max_queries": max_queries}}
        request = ExplainRequest.model_validate(asked)
        reply = await self.resources.explain.explain(self.customer.tenant_id + strangers, uuid4().hex, request)
        return int(json.loads(reply)["version"])

    def written(self) -> list[UUID]:
        """The versions of the decision records, in the task that they were written."""
        statement = select(ExplanationRow.model_version_id).where(ExplanationRow.tenant_id == self.customer.tenant_id)
        with self.database.reading() as connection:
            return list(connection.scalars(statement.order_by(ExplanationRow.created_at)))


@pytest.fixture
def lender(database: Database, customer: Customer, tmp_path: Path) -> Lender:
    return Lender(database, customer, tmp_path)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(BOUND):
            await test()

    asyncio.run(within())


def test_a_switch_counts_for_the_next_request(lender: Lender) -> None:
    async def test() -> None:
        assert [await lender.explain(), await lender.explain()] == [1, 1]
        second = lender.publish()
        assert await lender.explain() == 2
        assert lender.engine.begun == lender.written() == [lender.first, lender.first, second]

    run(test)


@pytest.mark.parametrize("max_queries", [0, 3])
def test_a_request_keeps_the_version_that_it_began_with(lender: Lender, max_queries: int) -> None:
    async def test() -> None:
        lender.engine.go.clear()
        asking = [asyncio.create_task(lender.explain(max_queries=max_queries)) for _ in range(5)]
        await until(lambda: len(lender.engine.begun) == 5)
        lender.publish()
        lender.engine.go.set()
        assert await asyncio.gather(*asking) == [1] * 5
        assert lender.written() == lender.engine.begun == [lender.first] * 5
        assert await lender.explain(max_queries=max_queries) == 2

    run(test)


def test_a_search_that_fails_is_told_and_leaves_no_record(lender: Lender) -> None:
    async def test() -> None:
        lender.engine.fails_for = lender.first
        with pytest.raises(RuntimeError, match="no memory"):
            await lender.explain()
        assert lender.written() == []

    run(test)


def test_who_hangs_up_takes_the_search_along(lender: Lender) -> None:
    async def test() -> None:
        await lender.explain()
        lender.engine.go.clear()
        asking = asyncio.create_task(lender.explain())
        await until(lambda: len(lender.engine.begun) == 2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert lender.engine.dropped == [lender.first]
        assert lender.written() == [lender.first]

    run(test)


def test_what_cannot_be_written_is_not_answered(lender: Lender, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(connection: object, rows: object) -> None:
        raise OSError("away")

    async def test() -> None:
        await lender.explain()
        monkeypatch.setattr(decisions, "add_decisions", away)
        with pytest.raises(OSError, match="away"):
            await lender.explain()

    run(test)


def test_names_that_nobody_trained_and_other_tenants(lender: Lender) -> None:
    async def test() -> None:
        await lender.explain()
        for name, strangers in (("boats", 0), ("loans", 1)):
            with pytest.raises(NotFoundError, match=f"no trained model '{name}'"):
                await lender.explain(name, strangers)
        assert len(lender.engine.begun) == 1

    run(test)
