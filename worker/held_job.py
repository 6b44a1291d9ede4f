"""A job in the hands of a trainer: whatever is written carries the fence, and waits while the database is away."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from sqlalchemy import Connection

from app.db.engine import Database, retry_database
from app.db.tables import AnyRow, utc_now
from app.train import jobs
from app.train.jobs import Claim

T = TypeVar("T")
PATIENCE = timedelta(minutes=2)


class HeldJob:
    """One claim on one job; LostLeaseError as soon as another trainer has taken it over."""

    def __init__(self, database: Database, claim: Claim, tenant_id: int) -> None:
        self.database, self.claim, self.tenant_id = database, claim, tenant_id

    @property
    def id(self) -> UUID:
        return self.claim.job_id

    def read(self) -> AnyRow:
        return self.write(lambda connection: jobs.held(connection, self.claim))

    def renew(self, lease: timedelta) -> bool:
        """Move the lease on; whether somebody asked to cancel the job."""
        return self.write(lambda connection: jobs.renew(connection, self.claim, utc_now() + lease))

    def save_progress(self, progress: Mapping[str, object], event: bool) -> int | None:
        """Store the job's progress; with `event` also as a point of its curves, and return how many there are."""

        def save(connection: Connection) -> int | None:
            jobs.save_progress(connection, self.claim, progress)
            if not event:
                return None
            jobs.add_event(connection, self.tenant_id, self.id, "progress", progress, utc_now())
            return jobs.thin_progress(connection, self.id)

        return self.write(save)

    def save_checkpoint(self, location: str) -> None:
        self.write(lambda connection: jobs.save_checkpoint(connection, self.claim, location))

    def save_reservation(self, reservation_id: UUID) -> None:
        self.write(lambda connection: jobs.save_reservation(connection, self.claim, reservation_id))

    def log(self, message: str) -> None:
        """A line that the job's owner sees."""
        payload = {"message": message}
        self.write(lambda c: jobs.add_event(c, self.tenant_id, self.id, "log", payload, utc_now()))

    def release(self, counted: bool = True) -> None:
        """Back into the queue, for whoever goes on with it."""
        self._change("queued", lambda connection: jobs.release(connection, self.claim, counted))

    def fail(self, error: str) -> None:
        self._change("failed", lambda connection: jobs.fail(connection, self.claim, error, utc_now()), error)

    def cancel(self) -> None:
        self._change("cancelled", lambda connection: jobs.cancel(connection, self.claim, utc_now()))

    def write(self, action: Callable[[Connection], T]) -> T:
        """One transaction; it is tried again while the database is away."""

        def run() -> T:
            with self.database.writing() as connection:
                return action(connection)

        return retry_database(run, PATIENCE)

    def _change(self, state: str, change: Callable[[Connection], None], error: str | None = None) -> None:
        def run(connection: Connection) -> None:
            change(connection)
            payload = {"state": state} | ({} if error is None else {"error": error})
            jobs.add_event(connection, self.tenant_id, self.id, "state", payload, utc_now())

        self.write(run)
