"""Connections to workers, against a server that behaves as each test says: kept, given up, lost, and never mixed up."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
import uvloop

from app.explain import connections
from app.explain.connections import Connections, LostError, NotSentError, Reply
from models.errors import ConfigError

Behave: TypeAlias = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Scripted:
    """A worker; `behave` answers a request. It counts connections, keeps what came, and notices who hangs up."""

    def __init__(self, behave: Behave) -> None:
        self.behave, self.connected, self.heads = behave, 0, list[bytes]()
        self.hung_up = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
                self.heads.append(head)
                await self.behave(await reader.readexactly(length), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.hung_up.set()
        finally:
            writer.close()


@asynccontextmanager
async def scripted(behave: Behave, tls: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    worker = Scripted(behave)
    server = await asyncio.start_server(worker.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    worker.url = f"{scheme}://localhost:{server.sockets[0].getsockname()[1]}"
    try:
        yield worker
    finally:
        server.close()


async def echo(body: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def run(test: Callable[[], Awaitable[None]]) -> None:
    """On the standard loop and on the servers' own: their transports are not alike."""

    async def within() -> None:
        async with asyncio.timeout(20):
            await test()

    for factory in (None, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(within())


def test_one_connection_carries_one_request_after_the_other() -> None:
    async def test() -> None:
        async with scripted(echo) as worker:
            mine = Connections({"X-Worker-Key": "k"})
            for body in (b"one", b"", b"x" * 3_000_000):
                assert await mine.send("POST", f"{worker.url}/explain", body) == Reply(200, body)
            assert worker.connected == 1
            assert worker.heads[0].startswith(b"POST /explain HTTP/1.1\r\nHost: localhost:")
            assert b"\r\nX-Worker-Key: k\r\n" in worker.heads[0]
            mine.close()
            await worker.hung_up.wait()

    run(test)


def test_requests_at_the_same_time_have_connections_of_their_own_and_get_their_own_answers() -> None:
    async def slow_for_long(body: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05 if len(body) > 3 else 0)
        await echo(body, writer)

    async def test() -> None:
        async with scripted(slow_for_long) as worker:
            mine = Connections({}, kept=2)
            bodies = [b"%d" % number * 3 for number in range(12)]
            replies = await asyncio.gather(*(mine.send("POST", worker.url, body) for body in bodies))
            assert [reply.body for reply in replies] == bodies
            assert worker.connected == 12
            assert [len(free) for free in mine._free.values()] == [2]
            mine.close()

    run(test)


def test_a_connection_that_the_worker_closed_meanwhile_is_not_used() -> None:
    async def answer_and_close(body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        asyncio.get_running_loop().call_later(0.02, writer.close)

    async def test() -> None:
        async with scripted(answer_and_close) as worker:
            mine = Connections({})
            for count in (1, 2):
                assert (await mine.send("POST", worker.url, b"a")).body == b"hi"
                await asyncio.sleep(0.1)
                assert worker.connected == count

    run(test)


def test_a_connection_that_lay_idle_for_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.01)

    async def test() -> None:
        async with scripted(echo) as worker:
            mine = Connections({})
            await mine.send("POST", worker.url)
            await asyncio.sleep(0.05)
            await mine.send("POST", worker.url)
            assert worker.connected == 2

    run(test)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n",
    ],
)
def test_a_worker_that_is_going_says_so(answer: bytes) -> None:
    async def say(body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async def test() -> None:
        async with scripted(say) as worker:
            mine = Connections({})
            assert [await mine.send("GET", worker.url) for _ in range(2)] == [Reply(200, b"hi")] * 2
            assert worker.connected == 2

    run(test)


@pytest.mark.parametrize("half", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"SSH-2.0 hello\r\n\r\n"])
def test_an_answer_that_is_not_whole_is_lost(half: bytes) -> None:
    async def break_off(body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(half)
        writer.close()

    async def test() -> None:
        async with scripted(break_off) as worker:
            mine = Connections({})
            with pytest.raises(LostError):
                await mine.send("POST", worker.url, b"order")
            assert not mine._free

    run(test)


def test_who_is_not_there_was_sent_nothing() -> None:
    async def test() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(NotSentError, match=f"no connection to {url}: .*111"):
                await Connections({}).send("POST", url, b"order")

    run(test)


def test_a_key_that_would_break_the_request_is_refused() -> None:
    with pytest.raises(ConfigError, match="X-Worker-Key holds a line break"):
        Connections({"X-Worker-Key": "secret\n"})


def test_who_waits_no_longer_hangs_up() -> None:
    async def never(body: bytes, writer: asyncio.StreamWriter) -> None:
        return None

    async def test() -> None:
        async with scripted(never) as worker:
            with pytest.raises(TimeoutError):
                await Connections({}).send("POST", worker.url, b"order", seconds=0.05)
            await worker.hung_up.wait()
        async with scripted(never) as worker:
            asking = asyncio.create_task(Connections({}).send("POST", worker.url, b"order"))
            while not worker.heads:
                await asyncio.sleep(0.01)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await worker.hung_up.wait()

    run(test)


def test_a_worker_behind_tls_is_checked_by_its_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)

    async def ask() -> Reply:
        async with scripted(echo, serving) as worker:
            return await Connections({}).send("POST", worker.url, b"order")

    async def trusted() -> None:
        assert await ask() == Reply(200, b"order")

    async def strange() -> None:
        with pytest.raises(NotSentError, match="certificate verify failed"):
            await ask()

    connections._tls.cache_clear()
    run(strange)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    connections._tls.cache_clear()
    run(trusted)
    connections._tls.cache_clear()
