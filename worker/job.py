"""The process of one training, `python -m worker.job JOB FENCE PIPE`: spawned by a trainer, which renews its lease.

It ends with the trainer: when the pipe to it closes, nobody renews the lease any more. Whatever goes wrong inside is
written to the job: what the user can correct fails it with that sentence; what may pass, and what nobody foresaw,
puts it back into the queue twice, then fails it.
"""

import os
import re
import signal
import sys
import time
import warnings
from threading import Event
from uuid import UUID

import structlog
from sqlalchemy import select

from app import logs
from app.db.engine import Database, open_database
from app.db.tables import Job
from app.errors import LedgerUnavailableError, LostLeaseError, ReservationError, UnavailableError, storage_is_full
from app.settings import Settings
from app.train.jobs import Claim
from models.device import one_thread
from models.errors import EnsembleError, RecourseError, StoppedError
from worker.context import open_context
from worker.held_job import HeldJob
from worker.process import ENDED, FULL, LOST, ORPHANED, STOPPED, beat, watch_parent
from worker.training import run_training

TRIES = 3
PAUSE_SECONDS = 2.0
PASSING = (EnsembleError, LedgerUnavailableError, ReservationError, UnavailableError)
"""Errors of the surroundings, which may be gone at the next try."""

log = structlog.get_logger()


def main(job_id: UUID, fence: int, pipe: int) -> int:
    """The exit code; see worker/process.py. pipe: where signs of life go."""
    beat(pipe)
    settings = Settings()
    logs.configure(settings)
    structlog.contextvars.bind_contextvars(job=str(job_id), fence=fence)
    stop = Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The trainer renews the lease: without it the training would be nobody's.
    watch_parent(lambda: os._exit(ORPHANED))
    database = open_database(settings.database, pool_size=3)
    try:
        held = HeldJob(database, Claim(job_id, fence), _tenant_of(database, job_id))
        with one_thread():
            return _run(settings, database, held, stop)
    except LostLeaseError as error:
        log.warning("job lost", reason=str(error))
        return LOST
    finally:
        database.close()


def _run(settings: Settings, database: Database, held: HeldJob, stop: Event) -> int:
    try:
        version_id = run_training(open_context(settings, database, held, stop.is_set))
        log.info("model published", version=str(version_id))
    except StoppedError:
        return STOPPED
    except LostLeaseError:
        raise
    except Exception as error:
        if storage_is_full(error):
            log.error("no space left", reason=str(error))
            return FULL
        _end(held, error)
    return ENDED


def _end(held: HeldJob, error: Exception) -> None:
    """Fail the job, or put it back for another try."""
    if isinstance(error, PASSING):
        _try_again(held, str(error))
    elif isinstance(error, RecourseError):
        log.info("training refused", reason=str(error))
        held.fail(without_folders(str(error)))
    else:
        log.error("training failed", exc_info=error)
        fact = "The training failed for a reason that is not in the data"
        _try_again(held, f"{fact}; the worker's log names it under job {held.id}.")


def without_folders(text: str) -> str:
    """A job's error is for the caller of the API: of the service's own files it tells the names, not where they are."""
    return re.sub(r"'/(?:[^'/]*/)*([^'/]+)'", r"'\1'", text)


def _try_again(held: HeldJob, reason: str) -> None:
    """Back into the queue, unless this was the last try from this checkpoint."""
    attempts = held.read().attempts
    log.warning("training interrupted", reason=reason, attempts=attempts)
    if attempts >= TRIES:
        held.fail(reason)
        return
    held.log(f"Try {attempts} of {TRIES} was interrupted: {reason}")
    time.sleep(PAUSE_SECONDS)
    held.release()


def _tenant_of(database: Database, job_id: UUID) -> int:
    with database.reading() as connection:
        return connection.execute(select(Job.tenant_id).where(Job.id == job_id)).scalar_one()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(UUID(sys.argv[1]), *map(int, sys.argv[2:])))
