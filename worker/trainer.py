"""The trainer of embedded mode, and of any worker without Redis: `python -m worker.trainer`.

It takes jobs from the table, one at a time, and looks for them every few seconds. With --bell a line on stdin lets it
look at once, and when stdin ends, so does the trainer.

A trainer that is rung through Redis: an RQ worker whose every ring is a look at the jobs table.

The ring's work is done in this process, and that is only to supervise: each training is a spawned process of its own.
What Redis forgets, the reconciler rings for again; while Redis is away, the table is looked at without a ring.
"""

import os
import signal
import time
from threading import Event, Thread
from types import FrameType
from typing import Annotated, ClassVar
from uuid import UUID

import structlog
import typer
from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer
from sqlalchemy.exc import SQLAlchemyError

from app import logs
from app.db.engine import Database, open_database
from app.errors import LedgerUnavailableError
from app.ledger.ledger import Ledger
from app.settings import Settings
from app.train.queue import QUEUE, RedisQueue, connect
from app.train.service import reconcile
from worker.supervisor import Supervisor

STDIN = 0
LOOK_SECONDS = 5.0

log = structlog.get_logger()


class Bell:
    """Rung by a line on stdin, and by the end of the trainer."""

    def __init__(self) -> None:
        self.stop = Event()
        self._rung = Event()

    def listen(self) -> None:
        """For a thread: until stdin ends, which means that whoever started the trainer is gone."""
        # Not through sys.stdin: a thread that holds its lock at the end makes Python abort.
        while os.read(STDIN, 4096):
            self._rung.set()
        self.end()

    def end(self) -> None:
        self.stop.set()
        self._rung.set()

    def wait(self, seconds: float) -> None:
        self._rung.wait(seconds)
        self._rung.clear()


def run(
    once: Annotated[bool, typer.Option("--once", help="End when no job waits.")] = False,
    bell: Annotated[bool, typer.Option("--bell", help="Listen to stdin, and end with it.")] = False,
) -> None:
    """Train what waits in the jobs table."""
    settings = Settings()
    logs.configure(settings)
    waiting = Bell()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: waiting.end())
    if bell:
        Thread(target=waiting.listen, daemon=True).start()
    database = open_database(settings.database, pool_size=3)
    try:
        supervisor = Supervisor(settings, database, waiting.stop.is_set)
        log.info("trainer ready")
        while not waiting.stop.is_set():
            worked = _work(supervisor)
            if once and not worked:
                break
            if not worked:
                waiting.wait(LOOK_SECONDS)
    finally:
        database.close()


def _work(supervisor: Supervisor) -> bool:
    try:
        return supervisor.work()
    except (LedgerUnavailableError, SQLAlchemyError) as error:
        log.error("database away", reason=str(error).partition("\n")[0])
        return False


if __name__ == "__main__":
    typer.run(run)


RECONCILE_SECONDS = 5.0
BEAT_SECONDS = 15.0
AWAY_SECONDS = 2.0


class TrainingWorker(SimpleWorker):
    """An RQ worker that stops what it trains, with a checkpoint, when it is told to end."""

    current: ClassVar["TrainingWorker"]
    """The one of this process: RQ calls `answer_ring` by its name, without it."""

    def __init__(self, redis: Redis, settings: Settings, database: Database, stop: Event) -> None:
        queue = Queue(QUEUE, connection=redis, serializer=JSONSerializer)
        super().__init__([queue], connection=redis, serializer=JSONSerializer)
        self.stop = stop
        self.supervisor = Supervisor(settings, database, self._looked)
        self._beaten = time.monotonic()
        TrainingWorker.current = self

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """SIGTERM or SIGINT."""
        self.stop.set()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]  # RQ leaves it without types.

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """A second signal changes nothing: the end is near, and a training that is kept costs less than a lost one."""

    def _looked(self) -> bool:
        """Whether to stop; asked many times a second, so that here is also where Redis hears that the worker lives."""
        if time.monotonic() - self._beaten > BEAT_SECONDS:
            self._beaten = time.monotonic()
            try:
                self.heartbeat()
            except RedisError as error:
                log.warning("no heartbeat", reason=str(error))
        return self.stop.is_set()


def answer_ring(job_id: str) -> None:
    """What RQ runs: the job that was rung for, if it still waits."""
    TrainingWorker.current.supervisor.work(UUID(job_id))


def serve(settings: Settings, database: Database, url: str) -> None:
    """Until SIGTERM or SIGINT."""
    stop = Event()
    queue = RedisQueue(url)
    reconciler = Thread(target=_reconcile, args=(settings, database, queue, stop), daemon=True)
    reconciler.start()
    while not stop.is_set():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: stop.set())
        redis = connect(url)
        try:
            TrainingWorker(redis, settings, database, stop).work(logging_level="WARNING")
            stop.set()
        except RedisError as error:
            log.warning("redis away", reason=str(error))
            _work_without_ring(Supervisor(settings, database, stop.is_set))
            stop.wait(AWAY_SECONDS)
        finally:
            redis.close()
    reconciler.join()
    queue.close()


def _work_without_ring(supervisor: Supervisor) -> None:
    try:
        supervisor.work()
    except (LedgerUnavailableError, SQLAlchemyError) as error:
        log.error("database away", reason=str(error).partition("\n")[0])


def _reconcile(settings: Settings, database: Database, queue: RedisQueue, stop: Event) -> None:
    ledger = Ledger(database)
    while not stop.wait(RECONCILE_SECONDS):
        try:
            reconcile(database, ledger, queue, settings.job_attempts)
        except (LedgerUnavailableError, SQLAlchemyError) as error:
            log.error("database away", reason=str(error).partition("\n")[0])
