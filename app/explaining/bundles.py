"""Bundles: orders that come while others are under way travel together, several in one request to a worker.

A request costs the API a few milliseconds of its own, more with every connection that is open beside it; the worker
searches the orders of a bundle together anyway. An order that comes alone leaves at once.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from app.explaining.protocol import ExplainAnswer, ExplainOrder
from models.errors import RecourseError

Outcome: TypeAlias = ExplainAnswer | RecourseError
Send: TypeAlias = Callable[[Sequence[ExplainOrder]], Awaitable[Sequence[Outcome]]]
MOST_RECORDS = 64
"""A bundle is full with so many: about what a worker searches at once."""


class Bundler:
    """At most `journeys` bundles are under way; the number may be changed. It is used on one event loop."""

    def __init__(self, send: Send, journeys: int) -> None:
        self._send, self.journeys, self._travelling = send, journeys, 0
        self._waiting: deque[tuple[ExplainOrder, asyncio.Future[ExplainAnswer]]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    async def explain(self, order: ExplainOrder) -> ExplainAnswer:
        """The answer, whoever it travelled with; who stops waiting before it has left takes it back."""
        if not self._waiting and self._travelling < self.journeys:
            return await self._alone(order)
        answer: asyncio.Future[ExplainAnswer] = asyncio.get_running_loop().create_future()
        place = order, answer
        self._waiting.append(place)
        self._leave()
        try:
            return await answer
        finally:
            if place in self._waiting:
                self._waiting.remove(place)

    async def close(self) -> None:
        """Wait for what is under way."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _alone(self, order: ExplainOrder) -> ExplainAnswer:
        """Nobody waits with it, so nobody else is told: who stops waiting takes it back on the way, too."""
        self._travelling += 1
        try:
            [outcome] = await self._send([order])
        finally:
            self._travelling -= 1
            self._leave()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _leave(self) -> None:
        while self._waiting and self._travelling < self.journeys:
            bundle = [self._waiting.popleft()]
            records = len(bundle[0][0].records)
            while self._waiting and records + len(self._waiting[0][0].records) <= MOST_RECORDS:
                bundle.append(self._waiting.popleft())
                records += len(bundle[-1][0].records)
            self._travelling += 1
            journey = asyncio.create_task(self._travel(bundle))
            self._under_way.add(journey)
            journey.add_done_callback(self._under_way.discard)

    async def _travel(self, bundle: list[tuple[ExplainOrder, "asyncio.Future[ExplainAnswer]"]]) -> None:
        outcomes: Sequence[ExplainAnswer | Exception]
        try:
            outcomes = await self._send([order for order, _ in bundle])
        # Those who wait get it, whatever it is: an order without an outcome would wait for ever.
        except Exception as error:
            outcomes = [error] * len(bundle)
        finally:
            self._travelling -= 1
            self._leave()
        for (_, waiting), outcome in zip(bundle, outcomes, strict=True):
            if waiting.done():
                continue
            if isinstance(outcome, Exception):
                waiting.set_exception(outcome)
            else:
                waiting.set_result(outcome)
