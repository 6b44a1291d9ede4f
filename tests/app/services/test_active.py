"""A search that begins with the version of the last time: a switch counts at once, and nothing is left running."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from threading import Event
from uuid import UUID, uuid4

import pytest

from app.db import jobs, model_versions
from app.db.engine import Database
from app.db.model_versions import NewVersion
from app.db.types import AnyRow
from app.errors import NotFoundError
from app.ledger.ledger import utc_now
from app.services.active import ActiveVersions, Found, Named
from tests.app.conftest import Customer


def publish(database: Database, customer: Customer) -> UUID:
    """The next version of `loans`, active."""
    job_id, now = uuid4(), utc_now()
    with database.writing() as connection:
        jobs.add(connection, customer.tenant_id, job_id, "loans", {}, now)
        version = NewVersion(job_id, "models/x", uuid4().hex, customer.ensemble_id, "1", {}, ["no", "yes"], {}, [])
        return model_versions.publish(connection, customer.tenant_id, "loans", version, True, now)


class Work:
    """A search that takes a moment; it knows what it began, ended and was told to drop."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.seconds, self.begun, self.dropped = seconds, list[UUID](), list[UUID]()

    async def __call__(self, version: AnyRow) -> str:
        self.begun.append(version.version_id)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.dropped.append(version.version_id)
            raise
        return f"by {version.number}"


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(within())


def test_the_same_version_is_searched_once_and_a_switch_counts_at_once(database: Database, customer: Customer) -> None:
    first = publish(database, customer)
    active, work = ActiveVersions(database), Work()

    async def test() -> None:
        for _ in range(2):
            version, found = await active.search(customer.tenant_id, "loans", work)
            assert (version.version_id, version.model, found) == (first, "loans", "by 1")
        assert work.begun == [first, first]
        second = publish(database, customer)
        version, found = await active.search(customer.tenant_id, "loans", work)
        assert (version.version_id, found) == (second, "by 2")
        assert (work.begun, work.dropped) == ([first, first, first, second], [first])
        await active.search(customer.tenant_id, "loans", work)
        assert work.begun[4:] == [second]

    run(test)


def test_a_search_that_fails_is_told_and_a_wrong_guess_that_fails_is_not(
    database: Database, customer: Customer
) -> None:
    first, active = publish(database, customer), ActiveVersions(database)

    async def fail(version: AnyRow) -> str:
        if version.version_id == first:
            raise RuntimeError("no memory")
        return "fine"

    async def test() -> None:
        await active.search(customer.tenant_id, "loans", Work())
        with pytest.raises(RuntimeError, match="no memory"):
            await active.search(customer.tenant_id, "loans", fail)
        publish(database, customer)
        assert (await active.search(customer.tenant_id, "loans", fail))[1] == "fine"

    run(test)


def test_who_hangs_up_takes_the_search_along(database: Database, customer: Customer) -> None:
    first, active, work = publish(database, customer), ActiveVersions(database), Work(60.0)

    async def test() -> None:
        await active.look_up(customer.tenant_id, "loans")
        asking = asyncio.create_task(active.search(customer.tenant_id, "loans", work))
        await asyncio.sleep(0.2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert work.dropped == [first]

    run(test)


def test_a_database_that_is_away_lets_nobody_be_answered(
    database: Database, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(database, customer)
    active, work = ActiveVersions(database), Work()

    def away(wanted: object) -> None:
        raise OSError("away")

    async def test() -> None:
        await active.search(customer.tenant_id, "loans", work)
        monkeypatch.setattr(active, "_read", away)
        with pytest.raises(OSError, match="away"):
            await active.search(customer.tenant_id, "loans", work)
        assert len(work.dropped) == 1

    run(test)


def test_names_that_nobody_trained_and_other_tenants(database: Database, customer: Customer) -> None:
    publish(database, customer)
    active, work = ActiveVersions(database), Work()

    async def test() -> None:
        await active.search(customer.tenant_id, "loans", work)
        for tenant_id, name in ((customer.tenant_id, "boats"), (customer.tenant_id + 1, "loans")):
            with pytest.raises(NotFoundError, match=f"no trained model '{name}'"):
                await active.search(tenant_id, name, work)
        assert len(work.begun) == 1

    run(test)


def test_one_read_answers_all_who_asked_before_it_began(
    database: Database, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, active = publish(database, customer), ActiveVersions(database)
    reads, go_on, read = list[object](), Event(), active._read

    def slow(wanted: Collection[Named]) -> Found:
        found = read(wanted)
        reads.append(wanted)
        go_on.wait(10)
        return found

    async def ask() -> UUID:
        version_id: UUID = (await active.look_up(customer.tenant_id, "loans")).version_id
        return version_id

    async def test() -> None:
        monkeypatch.setattr(active, "_read", slow)
        early = asyncio.create_task(ask())
        while not reads:
            await asyncio.sleep(0.01)
        second = publish(database, customer)
        late = [asyncio.create_task(ask()) for _ in range(50)]
        await asyncio.sleep(0.05)
        late.pop().cancel()
        go_on.set()
        assert await early == first
        assert set(await asyncio.gather(*late)) == {second}
        assert len(reads) == 2

    run(test)
