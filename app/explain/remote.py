"""The explainer in other processes: tasks go to workers over HTTP, each to the one that is least busy.

A name with several addresses is as many workers. A task goes to the next worker only if the first cannot have run it,
or if running it twice does no harm: a task that asks black boxes is never sent to a second worker once it has left, so
nothing is charged twice.

On the wire are JSON of the types of contract.py, and errors by their names.
"""

import asyncio
import ipaddress
import math
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import structlog
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from app import errors as app_errors
from app.errors import AuthenticationError, DeadlineError, OverloadedError, UnavailableError
from app.explain.contract import ExplainAnswer, ExplainerState, ExplainTask, VerifyAnswer, VerifyTask
from models import errors as model_errors
from models.errors import ConfigError, RecourseError

T = TypeVar("T")

KEY_HEADER = "X-Worker-Key"
VERSION_HEADER, VERSION = "X-Wire-Version", "3"
"""Of the tasks and answers that travel: raised with every change, so that two releases do not misread each other."""
NAMED: dict[str, type[RecourseError]] = {
    name: kind
    for module in (model_errors, app_errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, RecourseError)
}
CONNECT_SECONDS = 2.0
IDLE_SECONDS = 30.0
"""A connection idle for this long is not used again: less than the worker keeps one."""
STATE_SECONDS = 2.0
RESOLVE_SECONDS = 3.0
REST_SECONDS = 1.0
"""A worker that could not be reached is asked last for this long."""
SLACK_SECONDS = 5.0
"""How long after the deadline the worker's own answer is waited for."""
FAULT = 500
"""A worker answers so for a fault of its own; what is the task's has a lower status."""
logger = structlog.get_logger("recourse.explain")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it travels."""

    error: str
    message: str


ADAPTERS: dict[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (ExplainTask, ExplainAnswer, VerifyTask, VerifyAnswer, ExplainerState, Failure)
}


def write(value: object) -> bytes:
    """A task, an answer or a state as JSON."""
    return ADAPTERS[type(value)].dump_json(value)


def read(kind: type[T], body: bytes) -> T:
    """What the other side wrote; ValidationError for anything else."""
    value: T = ADAPTERS[kind].validate_json(body, strict=True, extra="forbid")
    return value


def write_error(error: BaseException) -> bytes:
    """A fault of ours keeps its message to itself: the log has it."""
    if isinstance(error, RecourseError):
        return to_json(Failure(type(error).__name__, str(error)))
    return to_json(Failure(UnavailableError.__name__, "the explainer failed: its log tells more"))


def read_error(body: bytes) -> RecourseError:
    try:
        failure = read(Failure, body)
        return NAMED[failure.error](failure.message)
    except (ValidationError, KeyError):
        return UnavailableError("a worker answered with what is not an answer: see its log")


@dataclass(eq=False)
class _Worker:
    url: str
    busy: int = 0
    rests_until: float = 0.0

    def order_key(self) -> tuple[bool, int]:
        return self.rests_until > time.monotonic(), self.busy


class _LostError(ConnectionError):
    """The connection ended before the answer was whole: the task may have been run."""


class RemoteExplainer:
    """Workers by their addresses; connections are kept. It is used on one event loop."""

    def __init__(self, urls: Sequence[str], key: str | None, connections: int = 100) -> None:
        """`connections` are kept open when nobody needs them, however many were needed."""
        if key is not None and not key.isprintable():
            fact = f"{KEY_HEADER} holds a line break or another character that cannot be sent"
            raise ConfigError(f"{fact}: take it out of RECOURSE_WORKER_KEY")
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise ConfigError(
                    f"RECOURSE_EXPLAINER_URL holds {url!r}: write http://host:port, commas between several"
                )
        self._addresses = Addresses(urls)
        self._workers: dict[str, _Worker] = {}
        headers = httpx.Headers({VERSION_HEADER: VERSION, "Content-Type": "application/json"})
        if key is not None:
            headers.update([(KEY_HEADER.encode(), key.encode("latin-1"))])
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_keepalive_connections=connections, keepalive_expiry=IDLE_SECONDS),
            # The system's certificates, or those that SSL_CERT_FILE names.
            verify=ssl.create_default_context(),
            trust_env=False,
        )

    def start(self) -> None:
        """The workers get ready by themselves."""

    async def explain(self, task: ExplainTask) -> ExplainAnswer:
        return read(ExplainAnswer, await self._send("/explain", task, repeatable=not task.asks))

    async def verify(self, task: VerifyTask) -> VerifyAnswer:
        return read(VerifyAnswer, await self._send("/verify", task, repeatable=False))

    async def state(self) -> ExplainerState:
        """All workers together; ready as long as one is."""
        workers = await self._known()
        states = [state for state in await asyncio.gather(*map(self._state_of, workers)) if state is not None]
        ready = [state for state in states if state.ready]
        told = ready or states
        reason = next((state.reason for state in told if state.reason), None)
        if not states:
            reason = f"none of {len(workers)} workers answers"
        return ExplainerState(
            ready=bool(ready),
            reason=reason,
            versions=sum(state.versions for state in states),
            queued_records=sum(state.queued_records for state in states),
            queue_limit=sum(state.queue_limit for state in states),
            workers=len(ready),
        )

    async def close(self) -> None:
        await self._addresses.close()
        await self._http.aclose()

    async def _known(self) -> list[_Worker]:
        """The workers as they are found now; one that stays keeps its count."""
        self._workers = {url: self._workers.get(url) or _Worker(url) for url in await self._addresses.current()}
        return list(self._workers.values())

    async def _send(self, path: str, task: ExplainTask | VerifyTask, repeatable: bool) -> bytes:
        """The reply of the first worker that takes the task; one that was lost is tried once more, at the end."""
        refusal: RecourseError = UnavailableError("no worker explains now: try again soon")
        waiting, lost = deque(sorted(await self._known(), key=_Worker.order_key)), set[_Worker]()
        while waiting:
            worker = waiting.popleft()
            try:
                return await self._post(worker, path, task, repeatable)
            except (OverloadedError, UnavailableError) as error:
                refusal = error
            except (httpx.ConnectError, httpx.ConnectTimeout):
                worker.rests_until = time.monotonic() + REST_SECONDS
            except TimeoutError:
                raise DeadlineError("the deadline passed before a worker answered: allow more time") from None
            except (httpx.TransportError, _LostError):
                worker.rests_until = time.monotonic() + REST_SECONDS
                if not repeatable:
                    fact = "the worker was lost while it ran the task, and what it asked is charged"
                    raise UnavailableError(f"{fact}: send it again, answers already bought are free") from None
                if worker not in lost:
                    lost.add(worker)
                    waiting.append(worker)
        raise refusal

    async def _post(self, worker: _Worker, path: str, task: ExplainTask | VerifyTask, repeatable: bool) -> bytes:
        left = None if math.isinf(task.deadline) else max(0.0, task.deadline - time.monotonic()) + SLACK_SECONDS
        worker.busy += 1
        try:
            # Who stops waiting hangs up: the worker then drops the task.
            async with asyncio.timeout(left):
                answer = await self._http.post(worker.url + path, content=write(task))
        finally:
            worker.busy -= 1
        if answer.is_success:
            return answer.content
        if answer.status_code >= FAULT and not repeatable:
            raise _LostError("the worker failed while it ran the task")
        error = read_error(answer.content)
        if isinstance(error, AuthenticationError):
            # The caller's own key is fine.
            raise UnavailableError("the worker does not take the API's key: set the same RECOURSE_WORKER_KEY on both")
        raise error

    async def _state_of(self, worker: _Worker) -> ExplainerState | None:
        try:
            answer = await self._http.get(worker.url + "/state", timeout=STATE_SECONDS)
        except httpx.TransportError:
            return None
        if not answer.is_success:
            return ExplainerState(ready=False, reason=str(read_error(answer.content)), workers=0)
        try:
            return read(ExplainerState, answer.content)
        except ValidationError:
            return None


class Addresses:
    """URLs with every address of their hosts, looked up again now and then. It is used on one event loop.

    `worker` in a compose file, or a headless service, has one address for each worker. A client that connects to the
    name would reach whichever comes first; this one wants them all, and notices when they change.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._given = [url.rstrip("/") for url in urls]
        self._found: dict[str, list[str]] = {url: [url] for url in self._given}
        self._due = float("-inf")
        self._lookup: asyncio.Task[None] | None = None

    async def current(self) -> list[str]:
        """Each URL once. Only the first caller waits for the lookup; later ones take what is known meanwhile."""
        if time.monotonic() >= self._due:
            first = self._due == float("-inf")
            self._due = time.monotonic() + RESOLVE_SECONDS
            self._lookup = asyncio.create_task(self._look_up())
            if first:
                await asyncio.shield(self._lookup)
        return list(dict.fromkeys(url for given in self._given for url in self._found[given]))

    async def close(self) -> None:
        if self._lookup is not None:
            self._lookup.cancel()
            await asyncio.gather(self._lookup, return_exceptions=True)

    async def _look_up(self) -> None:
        for url in self._given:
            try:
                self._found[url] = await _addressed(url)
            except OSError as error:
                # A name server that is away takes no worker with it: what was found before is kept.
                logger.warning("worker's name not found", url=url, reason=str(error))


async def _addressed(url: str) -> list[str]:
    """The URL with each address instead of the name. With TLS the name stays: the certificate is for that."""
    parsed = httpx.URL(url)
    if parsed.scheme != "http" or _is_address(parsed.host):
        return [url]
    port = parsed.port or 80
    found = await asyncio.get_running_loop().getaddrinfo(parsed.host, port, type=socket.SOCK_STREAM)
    addresses = sorted({str(address[0]) for *_, address in found})
    return [str(parsed.copy_with(host=address, port=port)).rstrip("/") for address in addresses]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
