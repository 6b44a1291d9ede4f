"""Attacks by connections: clients that do not read, never end what they send, or come in crowds."""

import asyncio
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count

import httpx

from app.db.tables import Role
from benchmarks.hostile.site import FAST, HONEST, Site, Tenant, order, sent
from benchmarks.hostile.verdict import Seen

SMALL_BUFFER = 4096
"""What the kernel takes for a client that does not read is not the service's memory."""
READERS, LISTENERS, HALF_SENT, FLOOD = 25, 60, 1_100, 3_000
LINES, VALUE = b"X-More: 1\r\n" * 1000, b"x" * 10_000
DRIP_SECONDS = 1.0


def read_no_ledger(site: Site, seconds: float) -> Seen:
    """Readers of the ledger as CSV, which do not read."""
    tenant = site.hostile[0]
    request = _request("GET", f"/budgets/{FAST}/ledger?format=csv", tenant, Role.VIEWER)
    with ExitStack() as stack:
        held = [stack.enter_context(_connected(site)) for _ in range(READERS)]
        for one in held:
            one.sendall(request)
        time.sleep(seconds)
        answered = sum(_peek(one).startswith(b"HTTP/1.1 200") for one in held)
    return Seen({"readers": READERS, "begun": answered}, [] if answered else ["no ledger was being read"])


def send_endless_headers(site: Site, seconds: float) -> Seen:
    return _send_without_end(site, seconds, b"GET /livez HTTP/1.1\r\nHost: x\r\n", LINES)


def send_one_endless_header(site: Site, seconds: float) -> Seen:
    return _send_without_end(site, seconds, b"GET /livez HTTP/1.1\r\nHost: x\r\nX-One: ", VALUE)


def _send_without_end(site: Site, seconds: float, begin: bytes, more: bytes) -> Seen:
    """Eight senders; whoever is cut off comes again."""
    end = time.monotonic() + seconds

    def send(_: int) -> tuple[int, int]:
        bytes_sent = cut_off = 0
        while time.monotonic() < end:
            with suppress(OSError), _connected(site) as connection:
                connection.sendall(begin)
                with suppress(OSError):
                    while time.monotonic() < end:
                        bytes_sent += connection.send(more)
                cut_off += time.monotonic() < end
        return bytes_sent, cut_off

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(send, range(8)))
    sent_mb, cut_off = sum(size for size, _ in found) / 2**20, sum(cut for _, cut in found)
    return Seen({"sent MB": round(sent_mb), "cut off": cut_off}, [] if cut_off else ["nobody was cut off"])


def send_halves(site: Site, seconds: float) -> Seen:
    """Half of them never end their headers, half never their body; all send a byte a second."""
    head = _request("POST", "/explain", site.hostile[0], Role.CLIENT, b"Content-Length: 100000\r\n")
    halves = [b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ", head + b'{"model": "']
    return asyncio.run(_hold(site, HALF_SENT, halves, b"x", seconds))


def flood(site: Site, seconds: float) -> Seen:
    """Connections of one address that say nothing, more than the service has places for; closed ones come again."""
    return asyncio.run(_hold(site, FLOOD, [b""], b"", seconds))


async def _hold(site: Site, most: int, begins: list[bytes], drip: bytes, seconds: float) -> Seen:
    """So many connections at once, opened again when they are closed; how many were open, and how many were closed."""
    end, numbers = time.monotonic() + seconds, count()
    opened = closed = 0

    async def one() -> None:
        nonlocal opened, closed
        while time.monotonic() < end:
            try:
                reader, writer = await asyncio.open_connection(*site.address)
            except OSError:
                await asyncio.sleep(0.2)
                continue
            opened += 1
            writer.write(begins[next(numbers) % len(begins)])
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout_at(_loop_time(end)):
                    await _drip(reader, writer, drip)
                closed += 1
            writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(most)))
    return Seen({"connections": most, "opened": opened, "cut off": closed})


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, drip: bytes) -> None:
    """Send a piece a second until the service closes the connection."""
    gone = asyncio.ensure_future(reader.read())
    try:
        while not gone.done():
            writer.write(drip)
            await asyncio.wait((gone,), timeout=DRIP_SECONDS)
    finally:
        gone.cancel()


def _loop_time(moment: float) -> float:
    return asyncio.get_running_loop().time() + moment - time.monotonic()


def listen_and_hang(site: Site, seconds: float) -> Seen:
    """Listeners to a training's events that do not read, more than a tenant may have."""
    tenant = site.hostile[0]
    with site.client(tenant) as http:
        job = sent(http.post("/train", json=order(tenant, "listened", 5.0, 0)), 202)
        try:
            request = _request("GET", f"/jobs/{job['id']}/events", tenant, Role.VIEWER)
            with ExitStack() as stack:
                held = [stack.enter_context(_connected(site)) for _ in range(LISTENERS)]
                for one in held:
                    one.sendall(request)
                time.sleep(seconds)
                heads = [_peek(one)[:12] for one in held]
        finally:
            cancel_all(http)
    listening = sum(head == b"HTTP/1.1 200" for head in heads)
    refused = sum(head == b"HTTP/1.1 503" for head in heads)
    faults = [] if listening and listening + refused == LISTENERS else [f"{heads} was answered"]
    return Seen({"listening": listening, "refused": refused}, faults)


def cancel_all(http: httpx.Client) -> None:
    """Cancel every job of the tenant, and wait until none runs."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        unfinished = [
            job["id"]
            for state in ("queued", "running")
            for job in sent(http.get("/jobs", params={"state": state, "limit": 500}))["items"]
        ]
        if not unfinished:
            return
        for job_id in unfinished:
            http.delete(f"/jobs/{job_id}")
        time.sleep(0.2)
    raise SystemExit("jobs could not be cancelled")


@contextmanager
def _connected(site: Site) -> Iterator[socket.socket]:
    """A connection with as small a buffer as the kernel allows."""
    with closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        connection.settimeout(10)
        connection.connect(site.address)
        yield connection


def _request(method: str, path: str, tenant: Tenant, role: Role, more: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: {HONEST}\r\nAuthorization: Bearer {tenant.keys[role]}\r\n"
    return head.encode() + b"Content-Type: application/json\r\n" + more + b"\r\n"


def _peek(connection: socket.socket) -> bytes:
    """What has come by now, left where it is."""
    connection.setblocking(False)
    with suppress(OSError):
        return connection.recv(100, socket.MSG_PEEK)
    return b""
