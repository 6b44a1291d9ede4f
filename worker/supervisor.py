"""A trainer's work on one job: claim it, let a process of its own train, renew the lease, watch for a cancel.

The training runs in a child, so that a cancel or a lost lease ends it at once, and nothing that it does to its memory
outlives it.
"""

import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import structlog

from app.artifacts import open_store
from app.auth.keyring import open_keyring
from app.db.engine import Database, retry_database
from app.db.tables import AnyRow, utc_now
from app.errors import LedgerUnavailableError, LostLeaseError
from app.ledger.chain import ChainKey
from app.ledger.ledger import Ledger
from app.settings import Settings
from app.train import jobs
from app.train.jobs import Claim
from app.train.service import clean_up, end_hopeless
from worker.held_job import PATIENCE, HeldJob
from worker.process import ENDED, FULL, LOST, STOPPED, Pulse

POLL_SECONDS = 0.1
RENEW_SECONDS = 1.0
"""Also how soon a cancel is noticed."""
TRIES = 3
"""How often a process may end with an error of its own; one that was killed has more attempts (the settings say)."""
FULL_SECONDS = 10.0
"""Between a training that found no space and the next try."""
STOP_SECONDS = 20.0
"""How long a training that is told to stop may take for its checkpoint."""

log = structlog.get_logger()


class Supervisor:
    """Works on one job at a time; `should_stop` says that this process must end."""

    def __init__(self, settings: Settings, database: Database, should_stop: Callable[[], bool]) -> None:
        self._settings, self._database, self._should_stop = settings, database, should_stop
        lease = timedelta(seconds=settings.budget_lease_seconds)
        chain_key = ChainKey(open_keyring(settings, database).ledger_secret)
        self._ledger = Ledger(database, chain_key, lease=lease, patience=PATIENCE)
        self._lease = timedelta(seconds=settings.job_lease_seconds)
        self._full_until = 0.0
        self._name = f"{socket.gethostname()}:{os.getpid()}"

    def work(self) -> bool:
        """Take the job that waits longest and see it through; whether there was one."""
        end_hopeless(self._database, self._ledger, self._settings.job_attempts)
        if not self._has_space():
            return False
        job = self._claim()
        if job is None:
            return False
        held = HeldJob(self._database, Claim(job.id, job.fence), job.tenant_id)
        log.info("job claimed", job=str(job.id), fence=job.fence, attempts=job.attempts)
        try:
            self._see_through(held)
        except LostLeaseError as error:
            log.warning("job lost", job=str(job.id), reason=str(error))
        self._clean_up(held)
        return True

    def _has_space(self) -> bool:
        """Whether a training would find room for its files; one that found none is begun again after a pause."""
        if time.monotonic() < self._full_until:
            return False
        folders, least = (self._settings.var_dir, Path(tempfile.gettempdir())), self._settings.min_free_bytes
        scarce = [folder for folder in folders if folder.exists() and shutil.disk_usage(folder).free < least]
        if scarce:
            log.warning("no space for a training", folder=str(scarce[0]), least=least)
        return not scarce

    def _claim(self) -> AnyRow | None:
        def claim() -> AnyRow | None:
            now = utc_now()
            with self._database.writing() as connection:
                row = jobs.claim(connection, self._name, now, now + self._lease)
                if row is not None:
                    payload = {"state": row.state, "attempts": row.attempts}
                    jobs.add_event(connection, row.tenant_id, row.id, "state", payload, now)
            return row

        return retry_database(claim, PATIENCE)

    def _see_through(self, held: HeldJob) -> None:
        pulse = Pulse()
        command = [sys.executable, "-m", "worker.job", str(held.id), str(held.claim.fence), str(pulse.pipe)]
        # A session of its own: a Ctrl-C in the terminal is the trainer's to handle.
        child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, pass_fds=(pulse.pipe,))
        pulse.spawned()
        try:
            if self._watch(held, child, pulse):
                child.kill()
                child.wait()
                held.cancel()
                log.info("job cancelled", job=str(held.id))
                return
            self._after(held, child.returncode)
        finally:
            child.kill()
            child.wait()
            if child.stdin is not None:
                child.stdin.close()
            pulse.close()

    def _watch(self, held: HeldJob, child: "subprocess.Popen[bytes]", pulse: Pulse) -> bool:
        """Until the child has ended, or somebody asked to cancel: then True. One that shows no life is ended."""
        renewed, kill_at = time.monotonic(), math.inf
        while child.poll() is None:
            now = time.monotonic()
            if self._should_stop() and kill_at == math.inf:
                child.terminate()
                kill_at = now + STOP_SECONDS
            if now > kill_at:
                child.kill()
            if pulse.silent(self._settings.job_silence_seconds):
                silence = f"{self._settings.job_silence_seconds:g} s without a sign of life"
                log.error("training silent", job=str(held.id), reason=silence)
                held.log(f"The training's process was ended after {silence}.")
                child.kill()
                child.wait()
            if now - renewed >= RENEW_SECONDS:
                renewed = now
                try:
                    if held.renew(self._lease):
                        return True
                except LedgerUnavailableError:
                    continue  # While the database is away nobody else can take the job either.
                except LostLeaseError:
                    if self._row(held).fence != held.claim.fence:
                        raise
                    kill_at = min(kill_at, now + STOP_SECONDS)  # The child has ended the job, and cleans up.
            time.sleep(POLL_SECONDS)
        return False

    def _after(self, held: HeldJob, code: int) -> None:
        """What to do with the job of a process that ended so."""
        if code in (ENDED, LOST):
            return
        if code == FULL:
            self._full_until = time.monotonic() + FULL_SECONDS
            held.log("No space was left for the training's files; it goes on from its last checkpoint when there is.")
            held.release(counted=False)
            return
        if code == STOPPED or self._should_stop():
            held.release()
            return
        attempts = held.read().attempts
        log.error("training died", job=str(held.id), code=code, attempts=attempts)
        if code > 0 and attempts >= TRIES:
            fact = f"The training's process ended with exit code {code}"
            held.fail(f"{fact}; the worker's log tells more of job {held.id}.")
            return
        if attempts < self._settings.job_attempts:
            held.log(f"The training's process died (exit code {code}); it goes on from its last checkpoint.")
        # One that is killed again and again, by the system for its memory, is ended by `end_hopeless`.
        held.release()

    def _clean_up(self, held: HeldJob) -> None:
        """Give back at once what an ended job did not use, and drop its checkpoints."""
        row = self._row(held)
        if row.state not in jobs.UNFINISHED:
            clean_up(self._database, self._ledger, open_store(self._settings), row)

    def _row(self, held: HeldJob) -> AnyRow:
        """The job as it is now, whoever holds it."""
        with self._database.reading() as connection:
            row = jobs.find_job(connection, held.tenant_id, held.id)
        assert row is not None, "jobs are never deleted"
        return row
