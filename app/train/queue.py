"""How the API wakes a trainer when there is work: through Redis, or as the child process of embedded mode.

Neither is a store. The jobs table is the truth: where a wake-up is lost, a trainer looks at the table after at most
`LOOK_SECONDS`; where one comes twice, it looks in vain.
"""

import os
import subprocess
import sys
import time
from threading import Event, Lock, Thread
from typing import Protocol
from uuid import UUID

import structlog
from redis import Redis
from redis.exceptions import RedisError

from app.settings import Settings, environment_of
from models.errors import ConfigError


class TrainingQueue(Protocol):
    """What the service needs of either way."""

    def wake(self, job_id: UUID) -> None:
        """Say that the job waits. Its row is committed before; doing it twice is harmless; it never raises."""
        ...

    def healthy(self) -> bool:
        """Whether a trainer would hear it now; for /readyz."""
        ...

    def close(self) -> None:
        """Let go of what the queue holds; a spawned trainer is stopped, its job goes on when the next one starts."""
        ...


KEY = "recourse-train"
"""The list in Redis: ids of jobs, each at most once. RPUSH by the API, BLPOP by the trainers that are idle."""
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 5.0
"""How often a trainer that nobody wakes looks at the jobs table."""

log = structlog.get_logger()


def connect(url: str) -> Redis:
    """A client of Redis; an answer that takes too long is an error, so that no request hangs on it."""
    try:
        return Redis.from_url(
            url, socket_connect_timeout=CONNECT_SECONDS, socket_timeout=ANSWER_SECONDS, health_check_interval=30
        )
    except ValueError as error:
        raise ConfigError("RECOURSE_REDIS_URL is not the URL of a Redis: write redis://host:6379/0") from error


class RedisQueue:
    """Wakes one of the trainers, wherever they are."""

    def __init__(self, url: str) -> None:
        self._redis = connect(url)

    def wake(self, job_id: UUID) -> None:
        """Put the job behind the others. While Redis is away nothing happens: the trainers look by themselves."""
        try:
            with self._redis.pipeline() as both:
                both.lrem(KEY, 0, str(job_id))
                both.rpush(KEY, str(job_id))
                both.execute()
        except RedisError as error:
            log.warning("no trainer woken", job=str(job_id), reason=str(error))

    def healthy(self) -> bool:
        """Whether Redis answers."""
        try:
            return bool(self._redis.ping())
        except RedisError:
            return False

    def close(self) -> None:
        self._redis.close()


COMMAND = ("-m", "worker.trainer", "--with-parent")
"""By name: app does not import worker."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Between the death of a trainer and the start of the next, in seconds; twice as long each time it dies young."""
GROWN_UP = 60.0
STOP_SECONDS = 30.0
"""For the checkpoint of what it trains; then it is killed, and its job goes on from an earlier one."""


class SpawnedQueue:
    """Watches over one trainer; it ends with this process, however that ends."""

    def __init__(self, settings: Settings) -> None:
        self._environment = os.environ | environment_of(settings)
        self._lock = Lock()
        self._closed = Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._watch, name="trainer", daemon=True)
        self._thread.start()

    def wake(self, job_id: UUID) -> None:
        """Wake the trainer; one that is just being started looks by itself."""
        with self._lock:
            child = self._child
            if child is not None and child.stdin is not None:
                try:
                    child.stdin.write(f"{job_id}\n".encode())
                    child.stdin.flush()
                except (OSError, ValueError):
                    log.warning("trainer not woken", job=str(job_id))

    def healthy(self) -> bool:
        """Whether a trainer is alive."""
        child = self._child
        return child is not None and child.poll() is None

    @property
    def pid(self) -> int | None:
        """The trainer's process, if one is alive."""
        child = self._child
        return None if child is None else child.pid

    def close(self) -> None:
        """Stop the trainer; what it trains goes on from a checkpoint when the next one starts."""
        self._closed.set()
        with self._lock:
            if self._child is not None:
                self._child.terminate()
        self._thread.join()

    def _watch(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            lived = self._live_once()
            pause = FIRST_PAUSE if lived > GROWN_UP else min(2 * pause, LONGEST_PAUSE)
            if not self._closed.is_set():
                log.error("trainer died", seconds=round(lived, 1), restart_in=pause)
            self._closed.wait(pause)

    def _live_once(self) -> float:
        """Start a trainer and wait for its end; the seconds that it lived."""
        began = time.monotonic()
        with self._lock:
            if self._closed.is_set():
                return 0.0
            # A session of its own: a Ctrl-C in the terminal is this process's to handle.
            self._child = child = subprocess.Popen(
                [sys.executable, *COMMAND], stdin=subprocess.PIPE, env=self._environment, start_new_session=True
            )
        try:
            self._wait(child)
        finally:
            with self._lock:
                self._child = None
                if child.stdin is not None:
                    child.stdin.close()
        return time.monotonic() - began

    def _wait(self, child: "subprocess.Popen[bytes]") -> None:
        while child.poll() is None:
            if self._closed.wait(0.2):
                try:
                    child.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
