"""The explainer in other processes: orders go to workers over HTTP, each to the one that is least busy.

A name with several addresses is as many workers.
An order goes to the next worker only if the first cannot have run it, or if running it twice does no harm: an order
with queries is never sent to a second worker once it has left, so nothing is charged twice.

Orders and answers between the API and its workers: JSON, and errors by their names.

Bundles: orders that come while others are under way travel together, several in one request to a worker.

A request costs the API a few milliseconds of its own, more with every connection that is open beside it; the worker
searches the orders of a bundle together anyway. An order that comes alone leaves at once.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from pydantic_core import from_json, to_json

from app import errors as app_errors
from app.errors import AuthenticationError, DeadlineError, OverloadedError, UnavailableError
from app.explain.connections import Connections, LostError, NotSentError
from app.explain.contract import (
    ExplainAnswer,
    ExplainerState,
    ExplainOrder,
    RecordAnswer,
    VerifiedRecord,
    VerifyAnswer,
    VerifyOrder,
)
from app.explain.workers import Addresses
from models import errors as model_errors
from models.data.schema import Direction
from models.errors import RecourseError

Document: TypeAlias = Mapping[str, Any]
"""JSON that the other side of this file wrote."""

KEY_HEADER = "X-Worker-Key"
VERSION_HEADER, VERSION = "X-Wire-Version", "2"
"""Of the orders and answers that travel: raised with every change, so that two releases do not misread each other."""
NAMED: dict[str, type[RecourseError]] = {
    name: kind
    for module in (model_errors, app_errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, RecourseError)
}


def write_explain_order(order: ExplainOrder) -> bytes:
    return to_json(
        {
            "order_id": order.order_id,
            "tenant_id": order.tenant_id,
            "version_id": order.version_id,
            "records": order.records,
            "target": order.target,
            "immutable": order.immutable,
            "ranges": order.ranges,
            "directions": order.directions,
            "k": order.k,
            "min_agreement": order.min_agreement,
            "max_queries": order.max_queries,
            "price": order.price,
            "candidates": order.candidates,
            "seed": order.seed,
            "trajectory": order.trajectory,
            "seconds": _seconds_left(order.deadline),
        }
    )


def read_explain_order(body: bytes) -> ExplainOrder:
    return _explain_order(from_json(body))


def write_explain_orders(orders: Sequence[ExplainOrder]) -> bytes:
    return b"[" + b",".join(map(write_explain_order, orders)) + b"]"


def read_explain_orders(body: bytes) -> list[ExplainOrder]:
    return [_explain_order(document) for document in from_json(body)]


def _explain_order(document: Document) -> ExplainOrder:
    return ExplainOrder(
        tenant_id=document["tenant_id"],
        version_id=UUID(document["version_id"]),
        records=document["records"],
        target=document["target"],
        immutable=tuple(document["immutable"]),
        ranges={name: tuple(wanted) for name, wanted in document["ranges"].items()},
        directions={name: Direction(way) for name, way in document["directions"].items()},
        k=document["k"],
        min_agreement=document["min_agreement"],
        max_queries=document["max_queries"],
        price=document["price"],
        candidates=document["candidates"],
        seed=document["seed"],
        trajectory=document["trajectory"],
        deadline=_deadline(document["seconds"]),
        order_id=UUID(document["order_id"]),
    )


def write_explain_answer(answer: ExplainAnswer) -> bytes:
    """The bodies travel as texts: they are not read on the way."""
    return to_json([(one.status, one.queries, one.body.decode(), one.charged) for one in answer.records])


def read_explain_answer(body: bytes) -> ExplainAnswer:
    return _explain_answer(from_json(body))


def _explain_answer(records: list[tuple[str, int, str, int]]) -> ExplainAnswer:
    return ExplainAnswer(
        tuple(RecordAnswer(status, queries, text.encode(), charged) for status, queries, text, charged in records)
    )


def write_outcomes(outcomes: Sequence[ExplainAnswer | BaseException]) -> bytes:
    """An answer or an error for each order of a bundle."""
    written = (
        write_explain_answer(outcome) if isinstance(outcome, ExplainAnswer) else write_error(outcome)
        for outcome in outcomes
    )
    return b"[" + b",".join(written) + b"]"


def read_outcomes(body: bytes) -> list[ExplainAnswer | RecourseError]:
    return [_error(outcome) if isinstance(outcome, dict) else _explain_answer(outcome) for outcome in from_json(body)]


def write_verify_order(order: VerifyOrder) -> bytes:
    return to_json(
        {
            "order_id": order.order_id,
            "tenant_id": order.tenant_id,
            "version_id": order.version_id,
            "records": order.records,
            "target": order.target,
            "seconds": _seconds_left(order.deadline),
        }
    )


def read_verify_order(body: bytes) -> VerifyOrder:
    document: Document = from_json(body)
    return VerifyOrder(
        tenant_id=document["tenant_id"],
        version_id=UUID(document["version_id"]),
        records=document["records"],
        target=document["target"],
        deadline=_deadline(document["seconds"]),
        order_id=UUID(document["order_id"]),
    )


def write_verify_answer(answer: VerifyAnswer) -> bytes:
    return to_json(answer)


def read_verify_answer(body: bytes) -> VerifyAnswer:
    document: Document = from_json(body)
    return VerifyAnswer(
        members=tuple(document["members"]),
        classes=tuple(document["classes"]),
        records=tuple(_verified_record(record) for record in document["records"]),
        charged=document["charged"],
        reused=document["reused"],
    )


def write_state(state: ExplainerState) -> bytes:
    return to_json(state)


def read_state(body: bytes) -> ExplainerState:
    return ExplainerState(**from_json(body))


def write_error(error: BaseException) -> bytes:
    """A fault of ours keeps its message to itself: the log has it."""
    if isinstance(error, RecourseError):
        return to_json({"error": type(error).__name__, "message": str(error)})
    return to_json({"error": UnavailableError.__name__, "message": "the explainer failed: its log tells more"})


def read_error(body: bytes) -> RecourseError:
    try:
        return _error(from_json(body))
    except (ValueError, KeyError, TypeError):
        return UnavailableError("a worker answered with what is not an answer: see its log")


def _error(document: Document) -> RecourseError:
    return NAMED[document["error"]](document["message"])


def _verified_record(record: Document) -> VerifiedRecord:
    votes = record["votes"]
    return VerifiedRecord(
        probabilities=tuple(None if row is None else tuple(row) for row in record["probabilities"]),
        votes=None if votes is None else tuple(votes),
        agreement=record["agreement"],
        lower_bound=record["lower_bound"],
        error=record["error"],
    )


def _seconds_left(deadline: float) -> float | None:
    """Clocks of two machines have nothing in common, but a second is a second."""
    return None if math.isinf(deadline) else deadline - time.monotonic()


def _deadline(seconds: float | None) -> float:
    return math.inf if seconds is None else time.monotonic() + seconds


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
        headers = {VERSION_HEADER: VERSION} | ({} if key is None else {KEY_HEADER: key})
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
        body = write_explain_order(order)
        return read_explain_answer(
            await self._send("/explain", body, order.deadline, repeatable=order.max_queries == 0)
        )

    async def _send_bundle(self, orders: Sequence[ExplainOrder]) -> Sequence[Outcome]:
        """Orders without queries, in one request."""
        body, deadline = write_explain_orders(orders), max(order.deadline for order in orders)
        return read_outcomes(await self._send("/explain-many", body, deadline, repeatable=True))

    async def verify(self, order: VerifyOrder) -> VerifyAnswer:
        body = write_verify_order(order)
        return read_verify_answer(await self._send("/verify", body, order.deadline, repeatable=False))

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
        error = read_error(answer.body)
        if isinstance(error, AuthenticationError):
            # The caller's own key is fine.
            raise UnavailableError("the worker does not take the API's key: set RECOURSE_WORKER_KEY alike on both")
        raise error

    async def _state_of(self, worker: _Worker) -> ExplainerState | None:
        try:
            answer = await self._connections.send("GET", worker.url + "/state", seconds=STATE_SECONDS)
            if answer.status == 200:
                return read_state(answer.body)
            return ExplainerState(ready=False, reason=str(read_error(answer.body)), workers=0)
        # TimeoutError and lost connections are OSErrors.
        except (OSError, ValueError, TypeError):
            return None


def _is_small(order: ExplainOrder) -> bool:
    """Whether it fits into a bundle: a larger one takes its worker long, and others would wait behind it here."""
    return len(order.records) <= MOST_RECORDS and len(order.records) * order.candidates * order.k <= MOST_PATHS


def _too_late() -> DeadlineError:
    return DeadlineError("the deadline passed before a worker answered: allow more time")
