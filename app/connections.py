"""What a connection may cost before anybody knows who it is: bounded headers, limits of time, a bounded number.

h11 refuses headers beyond 16 KiB; httptools, uvicorn's faster parser, keeps whatever comes. Neither has a limit of time
for a request that never ends or a client that never reads, nor room for others when all connections are taken.
"""

import asyncio
import resource
from heapq import nsmallest

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LOOK_SECONDS = 5.0
LOOKS = 4
"""A client that lets the server wait at this many looks in a row is cut off."""
LEAST_RATE = 1024
"""Bytes a second, of a body or of an answer, that count as going on."""
MOST_CONNECTIONS = 2_000
MOST_DESCRIPTORS = 65_536


def allow_descriptors() -> int:
    """Raise the process's limit of open files as far as it may be raised without asking; the limit then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol on h11. Every few seconds it looks whether it waits for the client, and for how long already:
    for the headers to end, for a body that comes too slowly, for an answer that is not read.

    Beyond `most` connections those that have let the server wait longest make room for new ones. A request whose answer
    is being made or read is never given up for that.
    """

    look_seconds = LOOK_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._received = 0
        self._waits, self._before = 0, self._state()
        self._timer = self.loop.call_later(self.look_seconds, self._look)
        if len(self.connections) > self.most():
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        super().send_400_response(f"{msg} It must be HTTP/1.1, with headers of 16 KiB at most.")

    @staticmethod
    def most() -> int:
        """Half of the descriptors at most: files, the database and the lenders need the others."""
        return min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)

    @property
    def waits_for_client(self) -> bool:
        """Nothing is being done for the client, or it does not read: the next step is its own."""
        answering = self.cycle is not None and not self.cycle.response_complete
        arrived = self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)
        return not (answering and arrived) or self._waits > 0

    def _state(self) -> tuple[object, object, int, int]:
        """What the connection waits for, in which request, and how many bytes arrived and wait to be sent."""
        missing: object = None
        state = self.conn.their_state
        if state is h11.SEND_BODY and not self.flow.read_paused:
            missing = h11.SEND_BODY
        elif state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            missing = h11.IDLE
        return missing, self.cycle, self._received, self.transport.get_write_buffer_size()

    def _look(self) -> None:
        now, enough = self._state(), LEAST_RATE * self.look_seconds
        (missing, cycle, received, unsent), before = now, self._before
        slow_request = missing is not None and (missing, cycle) == before[:2]
        if missing is h11.SEND_BODY:
            slow_request = slow_request and received - before[2] < enough
        slow_reader = unsent > 0 and before[3] > 0 and before[3] - unsent < enough
        self._waits = self._waits + 1 if slow_request or slow_reader else 0
        self._before = now
        if self._waits >= LOOKS:
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(self.look_seconds, self._look)

    def _make_room(self) -> None:
        """A tenth at once: looking through all of them for every new one would take the loop's time."""
        opened = [
            one for one in self.connections if isinstance(one, BoundedProtocol) and not one.transport.is_closing()
        ]
        if len(opened) <= self.most():
            return
        waiting = [one for one in opened if one is not self and one.waits_for_client]
        for one in nsmallest(len(opened) // 10 + 1, waiting, key=lambda one: one._since) or [self]:
            one.transport.abort()
