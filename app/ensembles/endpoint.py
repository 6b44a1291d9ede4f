"""Calls to endpoints of the Open Inference Protocol v2, from one bounded pool of connections.

A call is prepared first: its address is checked and pinned, its body written, and only then charged and sent. Redirects
are not followed, time and size have caps. Which addresses may be called is decided in address.py.
"""

import asyncio
import json
import math
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from socket import SOCK_STREAM
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar
from urllib.parse import quote

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from pydantic import SecretStr

from app.concurrency import FairRoom
from app.ensembles.address import Address, AddressPolicy, Origin
from app.errors import EndpointError
from models.errors import ConfigError

T = TypeVar("T")
Document: TypeAlias = dict[str, Any]
Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]


class Layout(StrEnum):
    """How records travel: one tensor a feature with raw values, or the record matrix as one tensor."""

    COLUMNS = "columns"
    MATRIX = "matrix"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An Open Inference Protocol v2 model that answers for one member or for several.

    outputs: the output tensor of each member, (n, K) each; by default `predict_proba`, or the members' names if there
    are several. credential: sent as a bearer token; never in a log, an error, or the text of this object.
    """

    url: str
    model: str
    members: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    layout: Layout = Layout.COLUMNS
    credential: SecretStr | None = None
    seconds: float = 10.0
    max_bytes: int = 16 * 2**20

    def __post_init__(self) -> None:
        if not self.members:
            raise ConfigError(f"the endpoint of model {self.model!r} answers for no member: name one or more")
        if not self.outputs:
            default = ("predict_proba",) if len(self.members) == 1 else self.members
            object.__setattr__(self, "outputs", default)
        if len(self.outputs) != len(self.members):
            raise ConfigError(
                f"the endpoint of {self.model!r} has {len(self.members)} members, but {len(self.outputs)} outputs are "
                "named: name one a member"
            )


class EndpointFailure(Exception):
    """A call that brought no answer; `passing` says that another try may help. The message is safe to show."""

    def __init__(self, reason: str, passing: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.passing = passing


async def resolve(host: str, port: int) -> list[str]:
    """Every address of the host, as the system's resolver gives them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


@dataclass(frozen=True, slots=True)
class Call:
    """A request that can be sent: its address was checked, its body is written. `id` must come back with the answer."""

    endpoint: Endpoint
    origin: Origin
    address: Address
    body: bytes
    id: str

    @property
    def url(self) -> str:
        literal = f"[{self.address}]" if self.address.version == 6 else str(self.address)
        path = f"{self.origin.path}/v2/models/{quote(self.endpoint.model, safe='')}/infer"
        return f"{self.origin.scheme}://{literal}:{self.origin.port}{path}"

    @property
    def headers(self) -> dict[str, str]:
        headers = {
            "Host": self.origin.host_header,
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        if self.endpoint.credential is not None:
            headers["Authorization"] = f"Bearer {self.endpoint.credential.get_secret_value()}"
        return headers


MOST_CALLS = 128
"""Calls under way at once in this process, each with a connection of its own."""
MOST_SERVERS = 32
KEPT_CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=4.0)
"""Shorter than what servers allow, so that a kept connection does not end just as it is used."""


@dataclass(eq=False)
class _Server:
    """The connections to one server. They are kept between calls once it has given back the id of a request."""

    client: httpx.AsyncClient
    keeps: bool | None = None
    busy: int = 0


class EndpointPool:
    """All calls of this process to black boxes: one thread with an event loop, and a bounded number of connections.

    Each server has connections of its own: a pinned address must never be reused under another host's name. An answer
    on a kept connection may be one to an earlier request; so it counts only with the id of this one. Servers that give
    no id back get a new connection for each call, which is closed after it.
    """

    def __init__(self, policy: AddressPolicy, resolver: Resolver = resolve, tls: ssl.SSLContext | None = None) -> None:
        self.policy = policy
        self._resolve = resolver
        self._tls = tls
        self._servers: OrderedDict[tuple[str, str, int], _Server] = OrderedDict()
        self._room = FairRoom(MOST_CALLS)
        self._lock, self._open = Lock(), ExitStack()
        self._portal: BlockingPortal | None = None

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` returns on the pool's event loop, whose thread starts with the first; the caller's waits."""
        with self._lock:
            if self._portal is None:
                self._portal = self._open.enter_context(start_blocking_portal(name="black boxes"))
                # Closed in the other order: the connections, then whatever still waits for an answer, then the thread.
                self._open.callback(self._portal.call, self._portal.stop, True)
                self._open.callback(self._portal.call, self._close_servers)
        return self._portal.call(work)

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            self._open.close()
            self._portal = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def prepare(self, endpoint: Endpoint, id: str, body: bytes, seconds: float) -> Call:
        """The call, ready to be sent, or EndpointFailure: nothing was sent, so nothing needs to be charged."""
        try:
            origin = self.policy.origin(endpoint.url)
            async with asyncio.timeout(min(seconds, endpoint.seconds)):
                addresses = await self._resolve(origin.host, origin.port)
            return Call(endpoint, origin, self.policy.pin(origin, addresses), body, id)
        except EndpointError as error:
            raise EndpointFailure(str(error), passing=False) from error
        except TimeoutError as error:
            raise EndpointFailure("the name of its host was not resolved in time", passing=True) from error
        except UnicodeError as error:
            raise EndpointFailure("the name of its host is not a valid one: correct the URL", passing=False) from error
        except OSError as error:
            raise EndpointFailure("the name of its host cannot be resolved", passing=True) from error

    async def send(self, call: Call, holder: Hashable, seconds: float) -> Document:
        """The answer, or EndpointFailure; `seconds` and the endpoint's own limit hold for the whole call.

        holder: for whom; while others wait for a place, no holder has more than its share.
        """
        try:
            left = None if math.isinf(seconds) else seconds
            async with asyncio.timeout(left), self._room.place(holder), asyncio.timeout(call.endpoint.seconds):
                return await self._send(call)
        except TimeoutError as error:
            raise EndpointFailure("took too long", passing=True) from error
        except (OSError, httpx.HTTPError) as error:
            raise EndpointFailure(f"could not be reached ({type(error).__name__})", passing=True) from error

    async def _send(self, call: Call) -> Document:
        server, fresh = await self._server(call.origin), False

        async def trace(event: str, _: Mapping[str, object]) -> None:
            nonlocal fresh
            fresh = fresh or event == "connection.connect_tcp.complete"

        server.busy += 1
        try:
            request = server.client.stream(
                "POST",
                call.url,
                content=call.body,
                headers=call.headers | ({} if server.keeps else {"Connection": "close"}),
                # The certificate is checked against the name, although the connection goes to the pinned address.
                extensions={"sni_hostname": call.origin.host, "trace": trace},
                timeout=call.endpoint.seconds,
            )
            async with request as response:
                try:
                    answer = await _read(response, call.endpoint.max_bytes)
                    _check_id(answer.get("id"), call.id, fresh)
                except EndpointFailure as failure:
                    server.keeps = server.keeps and not isinstance(failure, StrangeAnswer)
                    await response.extensions["network_stream"].aclose()
                    raise
            if server.keeps is None:
                server.keeps = answer.get("id") == call.id
            return answer
        finally:
            server.busy -= 1

    async def _server(self, origin: Origin) -> _Server:
        """The server's connections; those to servers that were not called for long are closed."""
        key = (origin.scheme, origin.host, origin.port)
        if key not in self._servers:
            self._tls = self._tls or httpx.create_ssl_context()
            client = httpx.AsyncClient(
                verify=self._tls, trust_env=False, follow_redirects=False, limits=KEPT_CONNECTIONS
            )
            self._servers[key] = _Server(client)
        self._servers.move_to_end(key)
        idle = [other for other, server in self._servers.items() if not server.busy and other != key]
        for other in idle[: max(0, len(self._servers) - MOST_SERVERS)]:
            await self._servers.pop(other).client.aclose()
        return self._servers[key]

    async def _close_servers(self) -> None:
        while self._servers:
            await self._servers.popitem()[1].client.aclose()


class StrangeAnswer(EndpointFailure):
    """An answer to another request: the server's connections cannot be trusted."""


def _check_id(given: object, expected: str, fresh: bool) -> None:
    """An answer without an id counts only on a connection that carried nothing before."""
    if given is None and not fresh:
        raise StrangeAnswer("answered without the request's id on a connection that was used before", passing=True)
    if given is not None and given != expected:
        raise StrangeAnswer("answered with the id of another request", passing=True)


async def _read(response: httpx.Response, max_bytes: int) -> Document:
    """The response's JSON object."""
    _check_head(response, max_bytes)
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > max_bytes:
            raise EndpointFailure(f"sent more than the {max_bytes} bytes allowed", passing=False)
    try:
        document = json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise EndpointFailure("answered with what is not JSON", passing=False) from error
    if not isinstance(document, dict):
        raise EndpointFailure("answered without a list of outputs", passing=False)
    return document


def _check_head(response: httpx.Response, max_bytes: int) -> None:
    status = response.status_code
    if 300 <= status < 400:
        raise EndpointFailure(f"answered with a redirect (status {status}), which is not followed", passing=False)
    if status != 200:
        raise EndpointFailure(f"answered with status {status}", passing=status >= 500 or status in (408, 429))
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise EndpointFailure("answered in a compressed form that was not asked for", passing=False)
    announced = response.headers.get("Content-Length", "0")
    if announced.isdigit() and int(announced) > max_bytes:
        raise EndpointFailure(f"announced {announced} bytes, more than the {max_bytes} allowed", passing=False)
