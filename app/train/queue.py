"""How the API tells a trainer that there is work: two queues implement it, spawned.py and redis_queue.py.

Production's queue: RQ on Redis rings the bell. The job's row is the truth: a ring may be lost, or come twice.

Embedded mode's queue: a trainer as a child process, which is started, rung, and started again when it dies.
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
from rq import Queue
from rq.serializers import JSONSerializer

from app.settings import Settings, environment_of


class TrainingQueue(Protocol):
    """A bell, not a store: the jobs table is the truth, and a ring that is lost loses nothing."""

    def ring(self, job_id: UUID) -> None:
        """Say that the job waits. Its row is committed before; ringing twice is harmless; it never raises."""
        ...

    def healthy(self) -> bool:
        """Whether a ring now would reach the queue; for /readyz."""
        ...

    def close(self) -> None:
        """Let go of what the queue holds; a spawned trainer is stopped, its job goes on when the next one starts."""
        ...


QUEUE = "recourse-train"
ANSWER = "worker.trainer.answer_ring"
"""What a worker runs for a ring; by name, because app does not import worker."""
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0
FAILURE_SECONDS = 300
"""How long RQ remembers a ring that failed; nobody needs it, but an operator may look."""

log = structlog.get_logger()


def connect(url: str) -> Redis:
    """For a worker, which waits for rings as long as it takes."""
    return Redis.from_url(url, socket_connect_timeout=CONNECT_SECONDS)


class RedisQueue:
    """Rings workers, wherever they are."""

    def __init__(self, url: str) -> None:
        self._redis = Redis.from_url(
            url, socket_connect_timeout=CONNECT_SECONDS, socket_timeout=ANSWER_SECONDS, health_check_interval=30
        )
        self._queue = Queue(QUEUE, connection=self._redis, serializer=JSONSerializer)

    def ring(self, job_id: UUID) -> None:
        """Unless a ring for the job waits already. While Redis is away nothing happens: the reconciler rings again."""
        name = str(job_id)
        try:
            if self._queue.get_job_position(name) is None:
                self._queue.enqueue_call(
                    ANSWER, args=[name], job_id=name, timeout=-1, result_ttl=0, failure_ttl=FAILURE_SECONDS
                )
        except RedisError as error:
            log.warning("worker not rung", job=name, reason=str(error))

    def healthy(self) -> bool:
        """Whether Redis answers."""
        try:
            return bool(self._redis.ping())
        except RedisError:
            return False

    def close(self) -> None:
        self._redis.close()


COMMAND = ("-m", "worker.trainer", "--bell")
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

    def ring(self, job_id: UUID) -> None:
        """Wake the trainer; one that is just being started looks by itself."""
        with self._lock:
            child = self._child
            if child is not None and child.stdin is not None:
                try:
                    child.stdin.write(f"{job_id}\n".encode())
                    child.stdin.flush()
                except (OSError, ValueError):
                    log.warning("trainer not rung", job=str(job_id))

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
