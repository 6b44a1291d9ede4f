"""A request that is sent twice happens once."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Event

import anyio
import pytest
from sqlalchemy import Connection

from app import idempotency
from app.db.engine import Database
from app.db.tables import utc_now
from app.errors import InFlightError, ReusedKeyError
from app.idempotency import IdempotentRequests, KeyedBody, KeyUse, StoredReply
from models.errors import TargetError
from tests.app.conftest import Customer

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
    return anyio.run(requests.run, tenant_id, route, key, partial(anyio.to_thread.run_sync, work))


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
        assert go.wait(30)
        return StoredReply(200, "{}")

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(answer, requests, customer.tenant_id, "/train", FIRST, slow)
        assert begun.wait(30)
        with pytest.raises(InFlightError):
            answer(requests, customer.tenant_id, "/train", FIRST, slow)
        go.set()
        assert not first.result(30).replayed
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
    crashed = KeyUse(customer.tenant_id, "/train", "k", FIRST.digest, utc_now() - timedelta(seconds=100))
    with database.writing() as connection:
        assert idempotency.begin_use(connection, crashed)
    with pytest.raises(InFlightError):
        answer(IdempotentRequests(database, 200), customer.tenant_id, "/train", FIRST, Counter())
    taken_over = answer(IdempotentRequests(database, 60), customer.tenant_id, "/train", FIRST, Counter())
    with database.writing() as connection:
        idempotency.finish_use(connection, crashed, StoredReply(500, "from the grave"))
        idempotency.forget_use(connection, crashed)
    again = answer(IdempotentRequests(database, 60), customer.tenant_id, "/train", FIRST, Counter())
    assert (again.body, again.replayed) == (taken_over.body, True)


def test_on_the_event_loop_a_caller_that_hangs_up_frees_the_key(database: Database, customer: Customer) -> None:
    requests, work = IdempotentRequests(database, 60), Counter()

    async def run() -> None:
        async def never() -> StoredReply:
            await anyio.sleep_forever()
            raise AssertionError

        with anyio.move_on_after(0.2):
            await requests.run(customer.tenant_id, "/explain", FIRST, never)

        async def soon() -> StoredReply:
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

    def slow(connection: Connection, use: KeyUse) -> bool:
        beginning.set()
        assert go.wait(30)
        return begin(connection, use)

    async def soon() -> StoredReply:
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
