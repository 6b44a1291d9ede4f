"""Connections of nobody in particular: what they may hold, how long, and who makes room when there are too many."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.connections import LOOKS, BoundedProtocol
from tests.patience import PATIENCE, wait_until
from tests.servers.http import serving

PIECES = [b"x" * 2**20] * 64
"""More than the kernel's buffers of both ends hold."""
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n"


class App:
    """/large sends all pieces, any other path how long the body was; it knows how many requests are over."""

    def __init__(self) -> None:
        self.over = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["path"] == "/large":
                await StreamingResponse(iter(PIECES))(scope, receive, send)
            else:
                length = len(await Request(scope, receive).body())
                await PlainTextResponse(str(length))(scope, receive, send)
        finally:
            self.over += 1


class Impatient(BoundedProtocol):
    look_seconds = 0.25 * PATIENCE


class Narrow(BoundedProtocol):
    @staticmethod
    def most() -> int:
        return 20


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    address = httpx.URL(url)
    with socket.create_connection((address.host, address.port or 80), timeout=60 * PATIENCE) as connection:
        yield connection


def taken(connection: socket.socket, piece: bytes, most: int) -> int:
    """Bytes that went before the server closed the connection, `most` if it never did."""
    sent = 0
    with suppress(ConnectionError):
        while sent < most:
            sent += connection.send(piece)
    return sent


def read_all(connection: socket.socket) -> bytes:
    """What comes until the server ends the connection."""
    read = b""
    with suppress(ConnectionError):
        while more := connection.recv(65536):
            read += more
    return read


@pytest.mark.parametrize("piece", [b"X-More: 1\r\n" * 1000, b"x" * 10_000], ids=["many lines", "one line"])
def test_headers_without_end_are_cut_off(piece: bytes) -> None:
    with serving(App()) as url, connected(url) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-One: ")
        # What the kernel's buffers take is not the server's memory.
        assert taken(connection, piece, 64 * 2**20) < 32 * 2**20
        assert httpx.get(url).text == "0"


def test_a_refusal_says_what_is_wrong() -> None:
    with serving(App()) as url, connected(url) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-One: " + b"x" * 20_000)
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 400") and b"headers of 16 KiB at most" in answer
        assert httpx.get(url, headers={"X-One": "x" * 15_000}).text == "0"


@pytest.mark.parametrize(
    "half",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        HEAD + b"{",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n",
    ],
    ids=["nothing", "headers", "body", "second request"],
)
def test_half_sent_requests_are_cut_off(half: bytes) -> None:
    with serving(App(), protocol=Impatient) as url, connected(url) as connection:
        connection.sendall(half)
        read_all(connection)


def test_an_answer_that_is_not_read_is_given_up() -> None:
    app = App()
    with serving(app, protocol=Impatient) as url, connected(url) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: app.over)


def test_a_body_that_drips_is_cut_off_and_one_that_flows_is_not() -> None:
    end = time.monotonic() + (LOOKS + 2) * Impatient.look_seconds
    with serving(App(), protocol=Impatient) as url, connected(url) as slow, connected(url) as steady:
        slow.sendall(HEAD)
        steady.sendall(HEAD)
        left, cut = 1_000_000, False
        while time.monotonic() < end or not cut:
            try:
                slow.sendall(b"x")
            except ConnectionError:
                cut = True
            left -= steady.send(b"x" * 1000)
            time.sleep(0.01)
        steady.sendall(b"x" * left)
        assert read_all(steady).endswith(b"1000000")


def test_half_sent_requests_make_room_for_new_ones() -> None:
    with serving(App(), protocol=Narrow) as url, connected(url) as first, ExitStack() as stack:
        first.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(40):
            stack.enter_context(connected(url)).sendall(b"GET / HTTP/1.1\r\n")
        read_all(first)
        assert httpx.get(url).text == "0"


def test_an_answer_that_is_being_made_is_never_given_up_for_room() -> None:
    with (
        serving(App(), protocol=Narrow) as url,
        ExitStack() as stack,
        httpx.stream("GET", f"{url}/large") as answer,
    ):
        pieces = answer.iter_bytes(2**20)
        next(pieces)
        for _ in range(40):
            stack.enter_context(connected(url)).sendall(b"GET / HTTP/1.1\r\n")
        assert sum(map(len, pieces)) == sum(map(len, PIECES[1:]))


def test_descriptors_are_raised_as_far_as_allowed() -> None:
    code = (
        "import resource; from app.connections import allow_descriptors\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096)); allow_descriptors()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(4096, 4096)"
