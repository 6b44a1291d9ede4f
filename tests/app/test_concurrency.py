"""Threads that tenants share."""

import asyncio
from collections import Counter
from collections.abc import Callable
from threading import Event

import pytest

from app.concurrency import FairRoom, SharedThreads
from app.errors import OverloadedError
from tests.patience import BOUND, until


def test_no_tenant_holds_all_threads() -> None:
    begun, gate = list[int](), Event()

    def work(tenant_id: int) -> Callable[[], int]:
        def wait() -> int:
            begun.append(tenant_id)
            assert gate.wait(BOUND)
            return tenant_id

        return wait

    async def scenario() -> None:
        threads = SharedThreads(3)
        slow = [asyncio.create_task(threads.run(1, work(1))) for _ in range(4)]
        await until(lambda: begun == [1, 1])
        other = asyncio.create_task(threads.run(2, work(2)))
        await until(lambda: begun == [1, 1, 2])
        gate.set()
        assert await asyncio.gather(*slow, other) == [1, 1, 1, 1, 2]
        threads.close()

    try:
        asyncio.run(scenario())
    finally:
        gate.set()


def test_whoever_waits_too_long_for_its_share_is_sent_away() -> None:
    begun, gate = Event(), Event()

    def wait() -> None:
        begun.set()
        assert gate.wait(BOUND)

    async def scenario() -> None:
        threads = SharedThreads(2)
        first = asyncio.create_task(threads.run(1, wait))
        await until(begun.is_set)
        with pytest.raises(OverloadedError, match=r"for 0.05 s: try again"):
            await threads.run(1, wait, patience=0.05)
        gate.set()
        await first
        await threads.run(1, wait, patience=0.05)
        threads.close()

    try:
        asyncio.run(scenario())
    finally:
        gate.set()


def test_work_that_nobody_waits_for_any_more_still_counts() -> None:
    begun, gate = list[str](), Event()

    def wait() -> None:
        begun.append("slow")
        assert gate.wait(BOUND)

    async def scenario() -> None:
        threads = SharedThreads(2)
        first = asyncio.create_task(threads.run(1, wait))
        await until(lambda: begun == ["slow"])
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(threads.run(1, lambda: begun.append("second")))
        await threads.run(2, lambda: begun.append("other"))
        await asyncio.sleep(0.05)
        assert begun == ["slow", "other"]
        gate.set()
        await second
        threads.close()

    try:
        asyncio.run(scenario())
    finally:
        gate.set()


def test_slow_lenders_leave_places_for_others() -> None:
    """However many of them there are: a lender may take one more place while more are free than it has."""

    async def scenario() -> list[int]:
        room, inside, gate = FairRoom(16), Counter[str](), asyncio.Event()

        async def hold(lender: str) -> None:
            async with room.place(lender):
                inside[lender] += 1
                await gate.wait()

        tasks = []
        for lender in ("first", "second", "third", "fourth"):
            tasks += [asyncio.create_task(hold(lender)) for _ in range(20)]
            await asyncio.sleep(0.01)
        held = [inside[lender] for lender in ("first", "second", "third", "fourth")]
        gate.set()
        await asyncio.gather(*tasks)
        assert inside.total() == 80, "all of them come in at last"
        return held

    assert asyncio.run(scenario()) == [8, 4, 2, 1]
