"""The explainer in other processes: orders go to workers over HTTP, each to the one that is least busy.

A name with several addresses is as many workers.
An order goes to the next worker only if the first cannot have run it, or if running it twice does no harm: an order
with queries is never sent to a second worker once it has left, so nothing is charged twice.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import AuthenticationError, DeadlineError, OverloadedError, UnavailableError
from app.explaining import wire
from app.explaining.addresses import Addresses
from app.explaining.bundles import MOST_RECORDS, Bundler, Outcome
from app.explaining.connections import Connections, LostError, NotSentError
from app.explaining.protocol import ExplainAnswer, ExplainerState, ExplainOrder, VerifyAnswer, VerifyOrder
from models.errors import RecourseError

STATE_SECONDS = 2.0
REST_SECONDS = 1.0
"""A worker that could not be reached is asked last for so long."""
SLACK_SECONDS = 5.0
"""How long after the deadline the worker's own answer is waited for."""
FAULT = 500
"""A worker answers so for a fault of its own; what is the order's has a lower status."""
MOST_PATHS = 60 * MOST_RECORDS
"""An order of more travels alone."""
JOURNEYS = 3
"""Bundles that are under way to one worker: one is searched, one waits there, one travels."""


@dataclass(eq=False)
class _Worker:
    url: str
    busy: int = 0
    rests_until: float = 0.0

    def order_key(self) -> tuple[bool, int]:
        return self.rests_until > time.monotonic(), self.busy


class RemoteExplainer:
    """Workers by their addresses; connections are kept. It is used on one event loop."""

    def __init__(self, urls: Sequence[str], key: str | None, connections: int = 100) -> None:
        self._addresses = Addresses(urls)
        self._workers: dict[str, _Worker] = {}
        self._bundler = Bundler(self._send_bundle, JOURNEYS * len(urls))
        headers = {wire.VERSION_HEADER: wire.VERSION} | ({} if key is None else {wire.KEY_HEADER: key})
        self._connections = Connections(headers, connections)

    async def explain(self, order: ExplainOrder) -> ExplainAnswer:
        if order.max_queries == 0 and _is_small(order):
            try:
                async with asyncio.timeout(None if math.isinf(order.deadline) else order.deadline - time.monotonic()):
                    return await self._bundler.explain(order)
            except TimeoutError:
                raise _too_late() from None
            except OverloadedError:
                if len(self._workers) == 1:
                    raise
        body = wire.write_explain_order(order)
        return wire.read_explain_answer(
            await self._send("/explain", body, order.deadline, repeatable=order.max_queries == 0)
        )

    async def _send_bundle(self, orders: Sequence[ExplainOrder]) -> Sequence[Outcome]:
        """Orders without queries, in one request."""
        body, deadline = wire.write_explain_orders(orders), max(order.deadline for order in orders)
        return wire.read_outcomes(await self._send("/explain-many", body, deadline, repeatable=True))

    async def verify(self, order: VerifyOrder) -> VerifyAnswer:
        body = wire.write_verify_order(order)
        return wire.read_verify_answer(await self._send("/verify", body, order.deadline, repeatable=False))

    async def state(self) -> ExplainerState:
        """All workers together; ready as long as one is."""
        workers = await self._known()
        states = [state for state in await asyncio.gather(*map(self._state_of, workers)) if state is not None]
        ready = [state for state in states if state.ready]
        reason = states[0].reason if states else f"none of {len(workers)} workers answers"
        return ExplainerState(
            ready=bool(ready),
            reason=None if ready else reason,
            versions=sum(state.versions for state in states),
            queued_records=sum(state.queued_records for state in states),
            queue_limit=sum(state.queue_limit for state in states),
            workers=len(ready),
        )

    async def close(self) -> None:
        await self._bundler.close()
        await self._addresses.close()
        self._connections.close()

    async def _known(self) -> list[_Worker]:
        """The workers as they are found now; one that stays keeps its count."""
        self._workers = {url: self._workers.get(url) or _Worker(url) for url in await self._addresses.current()}
        self._bundler.journeys = JOURNEYS * len(self._workers)
        return list(self._workers.values())

    async def _send(self, path: str, body: bytes, deadline: float, repeatable: bool) -> bytes:
        """The reply of the first worker that takes the order; one that was lost is tried once more, at the end."""
        refusal: RecourseError = UnavailableError("no worker explains now: try again soon")
        waiting, lost = deque(sorted(await self._known(), key=_Worker.order_key)), set[_Worker]()
        while waiting:
            worker = waiting.popleft()
            try:
                return await self._post(worker, path, body, deadline, repeatable)
            except (OverloadedError, UnavailableError) as error:
                refusal = error
            except NotSentError:
                worker.rests_until = time.monotonic() + REST_SECONDS
            except TimeoutError:
                raise _too_late() from None
            except LostError:
                worker.rests_until = time.monotonic() + REST_SECONDS
                if not repeatable:
                    fact = "the worker was lost while it ran the order, and what it asked is charged"
                    raise UnavailableError(f"{fact}: send it again, answers already bought are free") from None
                if worker not in lost:
                    lost.add(worker)
                    waiting.append(worker)
        raise refusal

    async def _post(self, worker: _Worker, path: str, body: bytes, deadline: float, repeatable: bool) -> bytes:
        left = None if math.isinf(deadline) else max(0.0, deadline - time.monotonic()) + SLACK_SECONDS
        worker.busy += 1
        try:
            answer = await self._connections.send("POST", worker.url + path, body, left)
        finally:
            worker.busy -= 1
        if answer.status == 200:
            return answer.body
        if answer.status >= FAULT and not repeatable:
            raise LostError("the worker failed while it ran the order")
        error = wire.read_error(answer.body)
        if isinstance(error, AuthenticationError):
            # The caller's own key is fine.
            raise UnavailableError("the worker does not take the API's key: set RECOURSE_WORKER_KEY alike on both")
        raise error

    async def _state_of(self, worker: _Worker) -> ExplainerState | None:
        try:
            answer = await self._connections.send("GET", worker.url + "/state", seconds=STATE_SECONDS)
            if answer.status == 200:
                return wire.read_state(answer.body)
            return ExplainerState(ready=False, reason=str(wire.read_error(answer.body)), workers=0)
        # TimeoutError and lost connections are OSErrors.
        except (OSError, ValueError, TypeError):
            return None


def _is_small(order: ExplainOrder) -> bool:
    """Whether it fits into a bundle: a larger one takes its worker long, and others would wait behind it here."""
    return len(order.records) <= MOST_RECORDS and len(order.records) * order.candidates * order.k <= MOST_PATHS


def _too_late() -> DeadlineError:
    return DeadlineError("the deadline passed before a worker answered: allow more time")
