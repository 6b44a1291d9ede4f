"""The load: clients that ask, wait for the answer and ask again, in a process of their own.

`python -m benchmarks.service.load` reads a job as JSON from stdin and writes what it measured to stdout. It speaks
HTTP by hand: a comfortable client would take as much of the cores as the server that it measures.
"""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked: bodies are JSON texts that the clients take in turn; `requests` 0: until the time is over."""

    url: str
    key: str
    bodies: list[str]
    clients: int
    warm_up: float
    seconds: float
    requests: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """Answers within the time, their milliseconds, and statuses other than 200.

    seconds: that were measured; whole: from the first request to the last answer
    """

    latencies: list[float]
    seconds: float
    whole: float
    failures: dict[str, int]


async def measure(load: Load) -> Measured:
    """All clients at once; what is answered before the measurement begins or after it ends does not count."""
    started = time.perf_counter()
    began = started + load.warm_up
    end = began + load.seconds if not load.requests else float("inf")
    found: list[tuple[float, float, int]] = []
    turns = iter(range(load.requests or 10**12))
    await asyncio.gather(*(_client(load, turns, found, end) for _ in range(load.clients)))
    counted = [(done, taken) for done, taken, status in found if began <= done <= end and status == 200]
    last = max((done for done, _ in counted), default=began)
    failures: dict[str, int] = {}
    for _, _, status in found:
        if status != 200:
            failures[str(status)] = failures.get(str(status), 0) + 1
    measured = (last if load.requests else end) - began
    return Measured([1000 * taken for _, taken in counted], measured, time.perf_counter() - started, failures)


async def _client(load: Load, turns: Iterator[int], found: list[tuple[float, float, int]], end: float) -> None:
    address = urlsplit(load.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    for turn in turns:
        body = load.bodies[turn % len(load.bodies)].encode()
        began = time.perf_counter()
        if began >= end:
            break
        writer.write(_request(address.netloc, load.key, body))
        status = await _read(reader)
        now = time.perf_counter()
        found.append((now, now - began, status))
        if status != 200:
            await asyncio.sleep(0.1)
    writer.close()
    await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> int:
    """The status of one answer, read to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    await reader.readexactly(_length(head))
    return int(head.split(" ", 2)[1])


class OneClient:
    """A client that waits in its socket: it adds little of its own."""

    def __init__(self, url: str, key: str) -> None:
        address = urlsplit(url)
        self._host, self._key = address.netloc, key
        self._connection = socket.create_connection((address.hostname, address.port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def milliseconds(self, text: str) -> float:
        """Until the answer to the body is there, whole."""
        began = time.perf_counter()
        self._connection.sendall(_request(self._host, self._key, text.encode()))
        status = _answer_of(self._connection)
        taken = time.perf_counter() - began
        if status != 200:
            raise RuntimeError(f"the service answered {status}")
        return 1000 * taken

    def close(self) -> None:
        self._connection.close()


def _answer_of(connection: socket.socket) -> int:
    """The status of one answer, read to its end."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    left = _length(head.decode()) - len(body)
    while left > 0:
        left -= len(_more(connection))
    return int(head.split(b" ", 2)[1])


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise ConnectionError("the service closed the connection before its answer was whole")
    return data


def _request(host: str, key: str, body: bytes) -> bytes:
    head = f"POST /explain HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _length(head: str) -> int:
    lines = head.lower().split("\r\n")
    return next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))


def main() -> int:
    load = Load(**json.load(sys.stdin))
    json.dump(asdict(asyncio.run(measure(load))), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
