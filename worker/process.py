"""How the processes of a worker end: with the one that started them, and with which exit code.

A parent holds the other end of the child's stdin. The pipe closes however the parent ended, even by kill -9. A training
gives signs of life through another pipe.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import structlog

from models.errors import RecourseError

STDIN = 0

ENDED = 0
"""A training ended by itself; the job's row says how: done, failed, queued again. Other codes are deaths."""
STOPPED = 3
"""It was told to stop and kept a checkpoint; the trainer puts the job back."""
LOST = 4
"""Another trainer has the job."""
ORPHANED = 5
"""Its trainer died."""
FULL = 7
"""No space was left for its files; the trainer puts the job back, and waits for space."""
BEAT_SECONDS = 0.5
START_SECONDS = 300.0
"""A process may take at least this long to its first sign of life."""

REFUSED = 2
"""The settings, or what they name, do not let it start; the log says why in one sentence."""

log = structlog.get_logger()


@contextmanager
def refusing_in_one_sentence() -> Iterator[None]:
    """Log an error that keeps the process from starting as one line, and exit with REFUSED."""
    try:
        yield
    except RecourseError as error:
        log.error("cannot start", reason=str(error))
        raise SystemExit(REFUSED) from None


def watch_parent(gone: Callable[[], None], spoke: Callable[[], None] = lambda: None) -> None:
    """Read stdin in a thread: `spoke` is called whenever the parent wrote something, `gone` when it has ended."""

    def read() -> None:
        # Not through sys.stdin: a thread that holds its lock at the end makes Python abort.
        while os.read(STDIN, 4096):
            spoke()
        gone()

    Thread(target=read, name="parent", daemon=True).start()


def end_with_parent() -> None:
    """From now on the parent's end is a SIGTERM: what is in flight is finished, what is trained is kept."""

    def end() -> None:
        log.warning("the worker is gone, its part ends")
        os.kill(os.getpid(), signal.SIGTERM)

    watch_parent(end)


def beat(pipe: int) -> None:
    """Signs of life, from a thread, into a pipe that the trainer reads: a process that is stopped gives none."""

    def write() -> None:
        with suppress(OSError):
            while True:
                os.write(pipe, b".")
                time.sleep(BEAT_SECONDS)

    Thread(target=write, name="beat", daemon=True).start()


class Pulse:
    """The trainer's end of that pipe."""

    def __init__(self) -> None:
        self._read, self.pipe = os.pipe()
        os.set_blocking(self._read, False)
        self._heard = time.monotonic()
        self._begun = False

    def spawned(self) -> None:
        """The child has its end by now."""
        os.close(self.pipe)

    def silent(self, seconds: float) -> bool:
        """Whether the child gave no sign for so long; until its first one it may take longer, to load its libraries."""
        with suppress(BlockingIOError):
            if os.read(self._read, 4096):
                self._heard, self._begun = time.monotonic(), True
        return time.monotonic() - self._heard > (seconds if self._begun else max(seconds, START_SECONDS))

    def close(self) -> None:
        os.close(self._read)
