"""The trainer: takes jobs from the jobs table, one at a time, until it is told to end. `python -m worker.trainer`

When no job waits it sleeps until it is woken or for some seconds, then looks again. Redis wakes it where there is one
(`RECOURSE_REDIS_URL`), else a line on stdin. Whatever it is woken with, it looks at the table: a wake-up that is lost,
comes twice or makes no sense changes nothing but the time of that look.

Each training is a process of its own (worker/job.py), which this one watches (worker/supervisor.py).
"""

import signal
import time
from threading import Event
from typing import Annotated, Protocol

import structlog
import typer
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from app import logs
from app.db.engine import open_database
from app.errors import LedgerUnavailableError
from app.settings import Settings
from app.train.queue import KEY, LOOK_SECONDS, connect
from worker.process import refusing_in_one_sentence, watch_parent
from worker.supervisor import Supervisor

STOP_SECONDS = 1.0
"""How soon a trainer that waits for Redis notices that it is told to end."""

log = structlog.get_logger()


class Waker(Protocol):
    """What an idle trainer waits for."""

    def wait(self, seconds: float) -> None:
        """Return when there may be work, when the trainer is told to end, or after so many seconds."""
        ...


class ParentWaker:
    """Woken by the process that started the trainer."""

    def __init__(self) -> None:
        self._woken = Event()

    def wake(self) -> None:
        self._woken.set()

    def wait(self, seconds: float) -> None:
        self._woken.wait(seconds)
        self._woken.clear()


class RedisWaker:
    """Woken by whatever comes out of the list in Redis; while Redis is away, by time alone."""

    def __init__(self, url: str, stop: Event) -> None:
        self._redis, self._stop = connect(url), stop

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        try:
            while not self._stop.is_set() and (left := end - time.monotonic()) > 0:
                if self._redis.blpop([KEY], timeout=min(left, STOP_SECONDS)) is not None:
                    return
        except RedisError as error:
            log.warning("not woken by Redis", reason=str(error))
            self._stop.wait(max(0.0, end - time.monotonic()))


def run(
    once: Annotated[bool, typer.Option("--once", help="End when no job waits.")] = False,
    with_parent: Annotated[bool, typer.Option("--with-parent", help="Woken by stdin, and ends with it.")] = False,
) -> None:
    """Train what waits in the jobs table."""
    with refusing_in_one_sentence():
        _run(once, with_parent)


def _run(once: bool, with_parent: bool) -> None:
    settings, stop, parent = Settings(), Event(), ParentWaker()
    logs.configure(settings)

    def end(*signalled: object) -> None:
        stop.set()
        parent.wake()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    if with_parent:
        watch_parent(end, parent.wake)
    url = settings.redis_url
    waker: Waker = parent if url is None else RedisWaker(url.get_secret_value(), stop)
    database = open_database(settings.database, pool_size=3)
    try:
        supervisor = Supervisor(settings, database, stop.is_set)
        log.info("trainer ready")
        while not stop.is_set():
            worked = _work(supervisor)
            if once and not worked:
                break
            if not worked and not stop.is_set():
                waker.wait(LOOK_SECONDS)
    finally:
        database.close()


def _work(supervisor: Supervisor) -> bool:
    """Whether there was a job; none can be taken while the database is away."""
    try:
        return supervisor.work()
    except (LedgerUnavailableError, SQLAlchemyError) as error:
        log.error("database away", reason=str(error).partition("\n")[0])
        return False


if __name__ == "__main__":
    typer.run(run)
