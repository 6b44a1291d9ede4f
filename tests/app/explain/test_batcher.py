"""The micro-batcher with an engine that only counts: who is searched with whom, in which task, and who is refused."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from app.ensembles.meter import EnsembleMeter
from app.errors import DeadlineError, OverloadedError, UnavailableError
from app.explain.contract import ExplainAnswer, ExplainRequest, ExplainTask, RecordAnswer
from app.explain.engine import batcher as batching
from app.explain.engine.batcher import Batcher, BatchLimits
from app.explain.engine.versions import LoadedVersion
from models.errors import RecordError
from models.model import RecourseModel
from tests.patience import BOUND, until

Batch = tuple[LoadedVersion, list[int]]
"""The version, and the number of records of each task."""


class CountingEngine:
    """Answers each record with its own number; it waits while its gate is closed."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.gate = Event()
        self.gate.set()

    def __call__(self, version: LoadedVersion, tasks: Sequence[ExplainTask]) -> Sequence[ExplainAnswer | Exception]:
        requests = [task.request for task in tasks]
        self.batches.append((version, [len(request.records) for request in requests]))
        assert self.gate.wait(BOUND)
        return [
            RecordError("a bad one")
            if request.target == "bad"
            else ExplainAnswer(tuple(RecordAnswer("valid", 0, str(record["n"]).encode()) for record in request.records))
            for request in requests
        ]


def new_version() -> LoadedVersion:
    def no_meter() -> EnsembleMeter:
        raise AssertionError("nobody asks here")

    return LoadedVersion(cast(RecourseModel, None), no_meter)


def new_task(
    count: int, start: int = 0, deadline: float = math.inf, max_queries: int = 0, **options: object
) -> ExplainTask:
    records = [{"n": start + position} for position in range(count)]
    asked = {"model": "loans", "records": records, "target": "approved", "robustness": {"max_queries": max_queries}}
    return ExplainTask(ExplainRequest.model_validate(asked | options), 1, UUID(int=0), deadline)


def numbers(answer: ExplainAnswer) -> list[int]:
    return [int(record.body) for record in answer.records]


def run(scenario: Callable[[CountingEngine], Awaitable[None]]) -> CountingEngine:
    engine = CountingEngine()

    async def whole() -> None:
        try:
            await scenario(engine)
        finally:
            engine.gate.set()

    asyncio.run(whole())
    return engine


def test_orders_that_come_while_the_engine_is_busy_are_searched_together() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, version = Batcher(engine, BatchLimits(records=16)), new_version()
        engine.gate.clear()
        first = asyncio.create_task(batcher.submit(version, new_task(1)))
        await until(lambda: len(engine.batches) == 1)
        others = [asyncio.create_task(batcher.submit(version, new_task(2, 10 * n))) for n in range(1, 4)]
        await asyncio.sleep(0)
        engine.gate.set()
        assert numbers(await first) == [0]
        assert [numbers(await other) for other in others] == [[10, 11], [20, 21], [30, 31]]
        await batcher.close()

    engine = run(scenario)
    assert [sizes for _, sizes in engine.batches] == [[1], [2, 2, 2]]


def test_an_idle_engine_starts_at_once_and_a_crowd_is_waited_for() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, version = Batcher(engine, BatchLimits(wait=30.0)), new_version()
        for _ in range(3):
            await asyncio.wait_for(batcher.submit(version, new_task(1)), BOUND)
        engine.gate.clear()
        crowd = [asyncio.create_task(batcher.submit(version, new_task(1))) for _ in range(4)]
        await until(lambda: len(engine.batches) == 4)
        engine.gate.set()
        await asyncio.gather(*crowd)
        # The last batch held three: the next ones wait for each other, and go when as many are there.
        again = [asyncio.create_task(batcher.submit(version, new_task(1))) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert len(engine.batches) == 5
        await asyncio.wait_for(batcher.submit(version, new_task(1)), BOUND)
        await asyncio.gather(*again)
        await batcher.close()

    engine = run(scenario)
    assert [sizes for _, sizes in engine.batches] == [[1], [1], [1], [1], [1, 1, 1], [1, 1, 1]]


def test_the_wait_ends_by_itself() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, version = Batcher(engine, BatchLimits(wait=0.01)), new_version()
        engine.gate.clear()
        crowd = [asyncio.create_task(batcher.submit(version, new_task(1))) for _ in range(5)]
        await until(lambda: len(engine.batches) == 1)
        engine.gate.set()
        await asyncio.gather(*crowd)
        await asyncio.wait_for(batcher.submit(version, new_task(1)), BOUND)
        await batcher.close()

    run(scenario)


def test_other_kinds_and_other_versions_are_searched_apart_and_take_turns() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, busy, other = Batcher(engine, BatchLimits(records=2)), new_version(), new_version()
        engine.gate.clear()
        tasks = [asyncio.create_task(batcher.submit(busy, new_task(2))) for _ in range(4)]
        await until(lambda: len(engine.batches) == 1)
        tasks.append(asyncio.create_task(batcher.submit(other, new_task(1))))
        tasks.append(asyncio.create_task(batcher.submit(other, new_task(1, seed=1))))
        await asyncio.sleep(0)
        engine.gate.set()
        await asyncio.gather(*tasks)
        await batcher.close()
        assert [version is other for version, _ in engine.batches] == [False, False, True, False, True, False]

    engine = run(scenario)
    assert [sizes for _, sizes in engine.batches] == [[2], [2], [1], [2], [1], [2]]


def test_orders_that_ask_black_boxes_keep_nobody_waiting() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, version = Batcher(engine, BatchLimits()), new_version()
        engine.gate.clear()
        asking = asyncio.create_task(batcher.submit(version, new_task(1, max_queries=5)))
        await until(lambda: len(engine.batches) == 1)
        quick = asyncio.create_task(batcher.submit(version, new_task(1)))
        await until(lambda: len(engine.batches) == 2)
        engine.gate.set()
        await asyncio.gather(asking, quick)
        await batcher.close()

    run(scenario)


def test_no_tenant_holds_all_threads_that_ask() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, slow, other = Batcher(engine, BatchLimits(asking=3)), new_version(), new_version()
        engine.gate.clear()
        tasks = [asyncio.create_task(batcher.submit(slow, new_task(1, max_queries=5, seed=seed))) for seed in range(4)]
        await until(lambda: len(engine.batches) == 2)
        tasks.append(asyncio.create_task(batcher.submit(other, replace(new_task(1, max_queries=5), tenant_id=2))))
        await until(lambda: len(engine.batches) == 3)
        engine.gate.set()
        await asyncio.gather(*tasks)
        await batcher.close()
        assert [version is other for version, _ in engine.batches] == [False, False, True, False, False]

    run(scenario)


def test_slow_lenders_leave_a_thread_to_the_next() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher = Batcher(engine, BatchLimits())
        engine.gate.clear()
        tasks, slow = [], [new_version(), new_version(), new_version()]
        for tenant_id, version in enumerate(slow):
            several = [replace(new_task(1, max_queries=5, seed=seed), tenant_id=tenant_id) for seed in range(20)]
            tasks += [asyncio.create_task(batcher.submit(version, task)) for task in several]
        await until(lambda: len(engine.batches) == 14)
        last = new_version()
        tasks.append(asyncio.create_task(batcher.submit(last, replace(new_task(1, max_queries=5), tenant_id=9))))
        await until(lambda: engine.batches[-1][0] is last)
        engine.gate.set()
        await asyncio.gather(*tasks)
        await batcher.close()

    run(scenario)


def test_a_large_order_goes_in_pieces_and_lets_others_in_between() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, version = Batcher(engine, BatchLimits(records=4)), new_version()
        engine.gate.clear()
        large = asyncio.create_task(batcher.submit(version, new_task(11)))
        await until(lambda: len(engine.batches) == 1)
        small = asyncio.create_task(batcher.submit(version, new_task(1, 100)))
        await asyncio.sleep(0)
        engine.gate.set()
        assert numbers(await small) == [100]
        assert numbers(await large) == list(range(11))
        await batcher.close()

    engine = run(scenario)
    assert sum(sum(sizes) for _, sizes in engine.batches) == 12
    assert 1 in engine.batches[1][1]


def test_a_full_queue_refuses_and_an_answered_one_takes_again() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, version = Batcher(engine, BatchLimits(queue=10)), new_version()
        engine.gate.clear()
        waiting = asyncio.create_task(batcher.submit(version, new_task(8)))
        await until(lambda: batcher.pending == 8)
        with pytest.raises(OverloadedError, match="8 records wait"):
            await batcher.submit(version, new_task(3))
        engine.gate.set()
        await waiting
        assert numbers(await batcher.submit(version, new_task(3))) == [0, 1, 2]
        assert batcher.pending == 0
        await batcher.close()

    run(scenario)


def test_too_late_or_cancelled_orders_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, version = Batcher(engine, BatchLimits()), new_version()
        with pytest.raises(DeadlineError):
            await batcher.submit(version, new_task(1, deadline=time.monotonic() - 1))
        engine.gate.clear()
        first = asyncio.create_task(batcher.submit(version, new_task(1)))
        await until(lambda: len(engine.batches) == 1)
        late = asyncio.create_task(batcher.submit(version, new_task(2, deadline=time.monotonic() + 3600)))
        gone = asyncio.create_task(batcher.submit(version, new_task(3)))
        kept = asyncio.create_task(batcher.submit(version, new_task(4)))
        await until(lambda: batcher.pending == 10)
        gone.cancel()
        await asyncio.sleep(0)
        monkeypatch.setattr(batching, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 7200))
        engine.gate.set()
        with pytest.raises(DeadlineError):
            await late
        assert len(numbers(await kept)) == 4
        await first
        await batcher.close()

    engine = run(scenario)
    assert [sizes for _, sizes in engine.batches] == [[1], [4]]


def test_one_order_s_error_is_its_own() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, version = Batcher(engine, BatchLimits()), new_version()
        engine.gate.clear()
        first = asyncio.create_task(batcher.submit(version, new_task(1)))
        await until(lambda: len(engine.batches) == 1)
        bad = asyncio.create_task(batcher.submit(version, new_task(1, target="bad")))
        good = asyncio.create_task(batcher.submit(version, new_task(1, 7)))
        await asyncio.sleep(0)
        engine.gate.set()
        await first
        assert numbers(await good) == [7]
        with pytest.raises(RecordError):
            await bad
        await batcher.close()

    run(scenario)


def test_closing_finishes_what_waits_and_refuses_what_comes() -> None:
    async def scenario(engine: CountingEngine) -> None:
        batcher, version = Batcher(engine, BatchLimits(records=4)), new_version()
        engine.gate.clear()
        waiting = [asyncio.create_task(batcher.submit(version, new_task(6, 10 * n))) for n in range(3)]
        await until(lambda: len(engine.batches) == 1)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError):
            await batcher.submit(version, new_task(1))
        engine.gate.set()
        await closing
        assert [len(numbers(await one)) for one in waiting] == [6, 6, 6]

    run(scenario)
