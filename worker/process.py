"""The parts of a worker end with it, however it ended: a pipe whose other end it holds closes even after a kill -9.

How the process of a training ends; any other code, or a signal, is a death.
"""

import os
import signal
from threading import Thread

import structlog

STDIN = 0

log = structlog.get_logger()


def end_with_parent() -> None:
    """From now on the end of stdin is a SIGTERM: what is in flight is finished, what is trained is kept."""
    Thread(target=_wait_for_the_end, name="parent", daemon=True).start()


def _wait_for_the_end() -> None:
    # Not through sys.stdin: a thread that holds its lock at the end makes Python abort.
    while os.read(STDIN, 4096):
        continue
    log.warning("the worker is gone, its part ends")
    os.kill(os.getpid(), signal.SIGTERM)


ENDED = 0
"""The job's row says how: done, failed, or queued again."""
STOPPED = 3
"""It was told to stop and kept a checkpoint; the trainer puts the job back."""
LOST = 4
"""Another trainer has the job."""
ORPHANED = 5
"""Its trainer died."""
