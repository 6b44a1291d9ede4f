"""Connections to workers, kept open: as much of HTTP/1.1 as two of our own processes speak.

A general client spends two milliseconds of every order on what is not needed here; this takes a fifth of one.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import cast
from urllib.parse import urlsplit

import httptools

from models.errors import ConfigError

CONNECT_SECONDS = 2.0
IDLE_SECONDS = 30.0
"""A connection that was not used for so long is not used again: less than the worker keeps one."""


class NotSentError(ConnectionError):
    """No connection could be made: the request has not left."""


class LostError(ConnectionError):
    """The connection ended before the answer was whole: the request may have been worked on."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    body: bytes


class Connections:
    """Those that are free, by their address; each carries one request at a time. It is used on one event loop."""

    def __init__(self, headers: Mapping[str, str], kept: int = 100) -> None:
        """`headers` go with every request; `kept` connections to one address are kept, however many were needed."""
        for name, value in headers.items():
            if not value.isprintable():
                raise ConfigError(f"{name} holds a line break or another character that cannot be sent: take it out")
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._kept = kept
        self._free: dict[str, list[_Connection]] = {}

    async def send(self, method: str, url: str, body: bytes = b"", seconds: float | None = None) -> Reply:
        """The reply, whatever its status. NotSentError, LostError, or TimeoutError after so many seconds.

        Who stops waiting, by being cancelled, hangs up: the worker then drops what it was asked for.
        """
        origin, host, path = _parts(url)
        connection = self._take(origin) or await _connect(origin)
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{self._headers}Content-Type: application/json\r\n"
        try:
            async with asyncio.timeout(seconds):
                reply = await connection.exchange(f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body)
        # A caller who gives up counts too: the answer that is still to come would be read as the next one's.
        except BaseException:
            connection.abort()
            raise
        self._give_back(origin, connection)
        return reply

    def close(self) -> None:
        """Hang up on those that are free."""
        for connections in self._free.values():
            for connection in connections:
                connection.close()
        self._free.clear()

    def _take(self, origin: str) -> "_Connection | None":
        """The one that was used last; those that nobody needed for long, or that the worker closed, are dropped."""
        oldest = time.monotonic() - IDLE_SECONDS
        for place, connections in list(self._free.items()):
            while connections and (connections[0].since < oldest or not connections[0].usable):
                connections.pop(0).close()
            if not connections:
                del self._free[place]
        while free := self._free.get(origin):
            if (connection := free.pop()).usable:
                return connection
        return None

    def _give_back(self, origin: str, connection: "_Connection") -> None:
        connection.since = time.monotonic()
        free = self._free.setdefault(origin, [])
        if connection.usable and len(free) < self._kept:
            free.append(connection)
        else:
            connection.close()


class _Connection(asyncio.Protocol):
    """One connection; the parser calls the methods that begin with `on_`."""

    def __init__(self) -> None:
        self.usable = True
        self.since = time.monotonic()
        self._parts: list[bytes] = []
        self._answer: asyncio.Future[Reply] | None = None
        self._parser = httptools.HttpResponseParser(self)

    async def exchange(self, request: bytes) -> Reply:
        self._parts, self._answer = [], asyncio.get_running_loop().create_future()
        if not self.usable:
            raise NotSentError("the worker closed the connection before the request was sent")
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        self.usable = False
        self._transport.close()

    def abort(self) -> None:
        """Without waiting for what is not sent yet."""
        self.usable = False
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods, not the class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(LostError(f"the worker's answer is not HTTP: {error}"))
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._fail(LostError("the worker closed the connection before its answer was whole"))

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        self.usable = self._parser.should_keep_alive()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Reply(self._parser.get_status_code(), b"".join(self._parts)))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


async def _connect(origin: str) -> _Connection:
    parsed = urlsplit(origin)
    tls = _tls() if parsed.scheme == "https" else None
    port = parsed.port or (80 if tls is None else 443)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            loop = asyncio.get_running_loop()
            return (await loop.create_connection(_Connection, parsed.hostname or "", port, ssl=tls))[1]
    except OSError as error:
        raise NotSentError(f"no connection to {origin}: {error}") from error


@cache
def _tls() -> ssl.SSLContext:
    """The system's certificates, or those that SSL_CERT_FILE names."""
    return ssl.create_default_context()


@cache
def _parts(url: str) -> tuple[str, str, str]:
    """Scheme and address, the Host header, the path."""
    parsed = urlsplit(url)
    return f"{parsed.scheme}://{parsed.netloc}", parsed.netloc, parsed.path or "/"
