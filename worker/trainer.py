"""The trainer of embedded mode, and of any worker without Redis: `python -m worker.trainer`.

It takes jobs from the table, one at a time, and looks for them every few seconds. With --bell a line on stdin lets it
look at once, and when stdin ends, so does the trainer.
"""

import os
import signal
from threading import Event, Thread
from typing import Annotated

import structlog
import typer
from sqlalchemy.exc import SQLAlchemyError

from app import logs
from app.db.engine import open_database
from app.errors import LedgerUnavailableError
from app.settings import Settings
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
