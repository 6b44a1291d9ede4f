"""Bundles: who travels with whom, and that each gets its own answer or its own error."""

import asyncio
import math
from collections.abc import Sequence
from uuid import UUID

import pytest

from app.errors import UnavailableError
from app.explain import remote
from app.explain.contract import ExplainAnswer, ExplainOrder, RecordAnswer
from app.explain.remote import MOST_RECORDS, Bundler, Outcome
from models.errors import RecordError


class Road:
    """Answers each record with its own number, when its gate is open."""

    def __init__(self) -> None:
        self.bundles: list[list[int]] = []
        self.gate = asyncio.Event()

    async def send(self, orders: Sequence[ExplainOrder]) -> Sequence[Outcome]:
        self.bundles.append([len(order.records) for order in orders])
        await self.gate.wait()
        if any(order.target == "lost" for order in orders):
            raise UnavailableError("no worker explains now: try again soon")
        # There and back as it really travels.
        again = remote.read_explain_orders(remote.write_explain_orders(orders))
        return remote.read_outcomes(remote.write_outcomes([self._answer(order) for order in again]))

    def _answer(self, order: ExplainOrder) -> Outcome:
        if order.target == "bad":
            return RecordError("a bad one")
        return ExplainAnswer(tuple(RecordAnswer("valid", 0, str(r["n"]).encode()) for r in order.records))


def new_order(count: int, start: int = 0, target: str = "approved") -> ExplainOrder:
    records = [{"n": start + position} for position in range(count)]
    return ExplainOrder(1, UUID(int=0), records, target, deadline=math.inf)


def numbers(answer: ExplainAnswer) -> list[int]:
    return [int(record.body) for record in answer.records]


def test_one_that_comes_alone_leaves_at_once_and_the_others_together() -> None:
    async def run() -> None:
        road = Road()
        bundler = Bundler(road.send, journeys=1)
        asked = [asyncio.create_task(bundler.explain(new_order(1, start))) for start in range(5)]
        await asyncio.sleep(0.01)
        assert road.bundles == [[1]]
        road.gate.set()
        assert [numbers(answer) for answer in await asyncio.gather(*asked)] == [[n] for n in range(5)]
        assert road.bundles == [[1], [1, 1, 1, 1]]
        await bundler.close()

    asyncio.run(run())


def test_a_bundle_has_an_end_and_a_large_order_is_one() -> None:
    async def run() -> None:
        road = Road()
        bundler = Bundler(road.send, journeys=2)
        sizes = (1, 1, 40, 20, 10, MOST_RECORDS + 100, 1)
        asked = [asyncio.create_task(bundler.explain(new_order(size))) for size in sizes]
        await asyncio.sleep(0.01)
        road.gate.set()
        answers = await asyncio.gather(*asked)
        assert [len(answer.records) for answer in answers] == list(sizes)
        assert road.bundles == [[1], [1], [40, 20], [10], [MOST_RECORDS + 100], [1]]

    asyncio.run(run())


def test_each_gets_its_own_error_and_a_lost_bundle_is_everybodys() -> None:
    async def run() -> None:
        road = Road()
        bundler = Bundler(road.send, journeys=1)
        orders = [new_order(1), new_order(1, 7), new_order(1, target="bad")]
        asked = [asyncio.create_task(bundler.explain(order)) for order in orders]
        road.gate.set()
        good, also_good, bad = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(good, ExplainAnswer) and isinstance(also_good, ExplainAnswer)
        assert numbers(also_good) == [7]
        assert isinstance(bad, RecordError) and str(bad) == "a bad one"
        with pytest.raises(UnavailableError, match="no worker"):
            await bundler.explain(new_order(1, target="lost"))
        assert numbers(await bundler.explain(new_order(1, 3))) == [3]

    asyncio.run(run())


def test_who_stops_waiting_takes_the_order_back() -> None:
    async def run() -> None:
        road = Road()
        bundler = Bundler(road.send, journeys=1)
        asked = [asyncio.create_task(bundler.explain(new_order(1, start))) for start in range(3)]
        await asyncio.sleep(0.01)
        asked[1].cancel()
        await asyncio.sleep(0)
        road.gate.set()
        await asyncio.gather(asked[0], asked[2])
        assert road.bundles == [[1], [1]]

    asyncio.run(run())


def test_one_that_travels_alone_is_taken_back_on_the_way_and_makes_room() -> None:
    async def run() -> None:
        road = Road()
        bundler = Bundler(road.send, journeys=1)
        asked = [asyncio.create_task(bundler.explain(new_order(1, start))) for start in range(2)]
        await asyncio.sleep(0.01)
        asked[0].cancel()
        await asyncio.sleep(0.01)
        assert road.bundles == [[1], [1]]
        road.gate.set()
        assert numbers(await asked[1]) == [1]

    asyncio.run(run())
