"""A request that is sent twice happens once."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from threading import Event

import anyio
import pytest
from sqlalchemy import Connection, select

from app import idempotency
from app.db.engine import Database
from app.db.tables import Idempotency, utc_now
from app.errors import InFlightError, ReusedKeyError
from app.idempotency import IdempotentRequests, Keep, KeyedBody, KeyUse, StoredReply
from models.errors import TargetError
from tests.app.conftest import Customer
from tests.patience import BOUND, wait_until

FIRST = KeyedBody.of("k", b"body")


class Counter:
    """Work that counts how often it was done."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self) -> StoredReply:
        self.done += 1
        return StoredReply(201, f'{{"number": {self.done}}}')


def answer(
    requests: IdempotentRequests, tenant_id: int, route: str, key: KeyedBody | None, work: Callable[[], StoredReply]
) -> StoredReply:
    """The request as a handler runs it: on an event loop, with its work in a thread."""

    async def in_thread(keep: Keep) -> StoredReply:
        return await anyio.to_thread.run_sync(work)

    return anyio.run(requests.run, tenant_id, route, key, in_thread)


def test_the_second_gets_the_answer_of_the_first(database: Database, customer: Customer) -> None:
    requests, work = IdempotentRequests(database, 60), Counter()
    first = answer(requests, customer.tenant_id, "/train", FIRST, work)
    again = answer(requests, customer.tenant_id, "/train", FIRST, work)
    assert (first.body, first.replayed) == ('{"number": 1}', False)
    assert (again.body, again.status, again.replayed, work.done) == (first.body, 201, True, 1)


def test_another_route_body_or_no_key_is_another_request(database: Database, customer: Customer) -> None:
    requests, work = IdempotentRequests(database, 60), Counter()
    answer(requests, customer.tenant_id, "/train", FIRST, work)
    answer(requests, customer.tenant_id, "/explain", FIRST, work)
    answer(requests, customer.tenant_id, "/train", None, work)
    assert work.done == 3
    with pytest.raises(ReusedKeyError):
        answer(requests, customer.tenant_id, "/train", KeyedBody.of("k", b"other"), work)
    assert work.done == 3


def test_what_failed_may_be_sent_again(database: Database, customer: Customer) -> None:
    requests, work = IdempotentRequests(database, 60), Counter()

    def fail() -> StoredReply:
        raise TargetError("no such class")

    for _ in range(2):
        with pytest.raises(TargetError):
            answer(requests, customer.tenant_id, "/train", FIRST, fail)
    assert not answer(requests, customer.tenant_id, "/train", FIRST, work).replayed


def test_while_the_first_is_answered_the_second_has_to_wait(database: Database, customer: Customer) -> None:
    requests, begun, go = IdempotentRequests(database, 60), Event(), Event()

    def slow() -> StoredReply:
        begun.set()
        assert go.wait(BOUND)
        return StoredReply(200, "{}")

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(answer, requests, customer.tenant_id, "/train", FIRST, slow)
        assert begun.wait(BOUND)
        with pytest.raises(InFlightError):
            answer(requests, customer.tenant_id, "/train", FIRST, slow)
        go.set()
        assert not first.result(BOUND).replayed
    assert answer(requests, customer.tenant_id, "/train", FIRST, slow).replayed


def test_of_many_at_once_one_is_done(database: Database, customer: Customer) -> None:
    requests, work = IdempotentRequests(database, 60), Counter()

    def ask(_: int) -> bool:
        try:
            answer(requests, customer.tenant_id, "/train", FIRST, work)
        except InFlightError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert any(pool.map(ask, range(24)))
    assert work.done == 1


def test_a_crashed_request_is_taken_over_and_cannot_answer_any_more(database: Database, customer: Customer) -> None:
    requests, now = IdempotentRequests(database, 60), utc_now()
    crashed = KeyUse(customer.tenant_id, "/explain", "k", FIRST.digest, now - timedelta(seconds=9))
    with database.writing() as connection:
        assert idempotency.begin_use(connection, crashed, now + timedelta(seconds=60))
    with pytest.raises(InFlightError):
        answer(requests, customer.tenant_id, "/explain", FIRST, Counter())
    with database.writing() as connection:
        idempotency.renew_use(connection, crashed, now)
    taken_over = answer(requests, customer.tenant_id, "/explain", FIRST, Counter())
    with database.writing() as connection:
        idempotency.finish_use(connection, crashed, StoredReply(500, "from the grave"))
        idempotency.forget_use(connection, crashed)
    again = answer(requests, customer.tenant_id, "/explain", FIRST, Counter())
    assert (again.body, again.replayed) == (taken_over.body, True)


def test_a_request_that_takes_long_gives_signs_of_life(database: Database, customer: Customer) -> None:
    """Its key's lease is renewed: nobody takes it over, however long it takes."""
    requests, go = IdempotentRequests(database, 0.3), Event()

    def slow() -> StoredReply:
        assert go.wait(BOUND)
        return StoredReply(200, "{}")

    def lease() -> datetime | None:
        with database.reading() as connection:
            return connection.execute(select(Idempotency.lease_until)).scalar_one_or_none()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(answer, requests, customer.tenant_id, "/explain", FIRST, slow)
        wait_until(lease)
        begun = lease()
        assert begun is not None
        wait_until(lambda: (lease() or begun) > begun + timedelta(seconds=0.3))
        go.set()
        assert not first.result(BOUND).replayed
    assert answer(requests, customer.tenant_id, "/explain", FIRST, slow).replayed


class TestOnce:
    """What is done in one transaction with its key."""

    def test_the_second_gets_the_answer_of_the_first(self, database: Database, customer: Customer) -> None:
        requests, work = IdempotentRequests(database, 60), Counter()
        once = partial(requests.once, customer.tenant_id, "/train", work=lambda connection: work())
        first, again = once(FIRST), once(FIRST)
        assert (first.body, first.replayed, again.body, again.replayed) == (again.body, False, first.body, True)
        assert not once(None).replayed and work.done == 2
        with pytest.raises(ReusedKeyError):
            once(KeyedBody.of("k", b"other"))

    def test_of_many_at_once_one_is_done_and_all_are_answered(self, database: Database, customer: Customer) -> None:
        requests, work = IdempotentRequests(database, 60), Counter()
        with ThreadPoolExecutor(8) as pool:
            asked = [
                pool.submit(requests.once, customer.tenant_id, "/train", FIRST, lambda connection: work())
                for _ in range(24)
            ]
        assert {one.result().body for one in asked} == {'{"number": 1}'}

    def test_what_is_refused_now_was_answered_before(self, database: Database, customer: Customer) -> None:
        """The first used the budget up: its repetition is answered all the same."""
        once = partial(IdempotentRequests(database, 60).once, customer.tenant_id, "/train", FIRST)
        work = Counter()

        def refuse() -> None:
            raise TargetError("no room")

        with pytest.raises(TargetError):
            once(lambda connection: work(), refuse)
        once(lambda connection: work())
        assert once(lambda connection: work(), refuse).replayed and work.done == 1

    def test_what_failed_leaves_nothing(self, database: Database, customer: Customer) -> None:
        requests, work = IdempotentRequests(database, 60), Counter()

        def fail(connection: Connection) -> StoredReply:
            raise TargetError("no such class")

        with pytest.raises(TargetError):
            requests.once(customer.tenant_id, "/train", FIRST, fail)
        assert not requests.once(customer.tenant_id, "/train", FIRST, lambda connection: work()).replayed


def test_work_that_keeps_its_answer_by_itself_is_not_undone_by_a_hang_up(
    database: Database, customer: Customer
) -> None:
    requests = IdempotentRequests(database, 60)

    async def run() -> None:
        async def write_and_wait(keep: Keep) -> StoredReply:
            with database.writing() as connection:
                keep(connection, StoredReply(200, "written"))
            await anyio.sleep_forever()
            raise AssertionError

        with anyio.move_on_after(0.2):
            await requests.run(customer.tenant_id, "/explain", FIRST, write_and_wait)

    anyio.run(run)
    again = answer(requests, customer.tenant_id, "/explain", FIRST, Counter())
    assert (again.body, again.replayed) == ("written", True)


def test_on_the_event_loop_a_caller_that_hangs_up_frees_the_key(database: Database, customer: Customer) -> None:
    requests, work = IdempotentRequests(database, 60), Counter()

    async def run() -> None:
        async def never(keep: Keep) -> StoredReply:
            await anyio.sleep_forever()
            raise AssertionError

        with anyio.move_on_after(0.2):
            await requests.run(customer.tenant_id, "/explain", FIRST, never)

        async def soon(keep: Keep) -> StoredReply:
            return work()

        for _ in range(2):
            await requests.run(customer.tenant_id, "/explain", FIRST, soon)

    anyio.run(run)
    assert work.done == 1


def test_a_caller_that_hangs_up_at_once_frees_the_key_too(
    database: Database, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is being written down in a thread, which goes on when nobody waits for it any more."""
    requests, work, beginning, go = IdempotentRequests(database, 600), Counter(), Event(), Event()
    begin = idempotency.begin_use

    def slow(connection: Connection, use: KeyUse, lease_until: datetime) -> bool:
        beginning.set()
        assert go.wait(BOUND)
        return begin(connection, use, lease_until)

    async def soon(keep: Keep) -> StoredReply:
        return work()

    async def run() -> None:
        monkeypatch.setattr(idempotency, "begin_use", slow)
        first = asyncio.create_task(requests.run(customer.tenant_id, "/explain", FIRST, soon))
        await asyncio.to_thread(beginning.wait, 30)
        first.cancel()
        await asyncio.sleep(0.05)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        await requests.run(customer.tenant_id, "/explain", FIRST, soon)

    asyncio.run(run())
    assert work.done == 1


def test_old_answers_are_dropped(database: Database, customer: Customer) -> None:
    requests, work = IdempotentRequests(database, 60), Counter()
    answer(requests, customer.tenant_id, "/train", FIRST, work)
    assert (_drop(database, timedelta(hours=1)), _drop(database, timedelta(0))) == (0, 1)
    assert not answer(requests, customer.tenant_id, "/train", FIRST, work).replayed


def _drop(database: Database, age: timedelta) -> int:
    with database.writing() as connection:
        return idempotency.drop_older_uses(connection, utc_now() - age)
