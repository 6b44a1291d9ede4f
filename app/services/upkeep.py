"""What has to be done once in a while: expire reservations of crashed processes, ring for jobs that wait, forget."""

from collections.abc import Callable
from datetime import timedelta

import structlog
from anyio import sleep, to_thread

from app.db import ended_sessions, idempotency
from app.ledger.ledger import utc_now
from app.resources import Resources
from app.services.jobs import reconcile

EVERY_SECONDS = 60.0
logger = structlog.get_logger("recourse.upkeep")


async def keep_up(resources: Resources, every: float = EVERY_SECONDS) -> None:
    """Until it is cancelled; what fails is logged, and tried again the next time. Any number of processes may do it."""
    while True:
        await to_thread.run_sync(tidy, resources)
        await sleep(every)


def tidy(resources: Resources) -> None:
    """Everything once."""
    chores: dict[str, Callable[[], object]] = {
        "expire reservations": resources.ledger.expire,
        "forget idempotency keys": lambda: _forget(resources),
        "forget ended sessions": lambda: _forget_sessions(resources),
        "ring for waiting jobs": lambda: reconcile(
            resources.database, resources.ledger, resources.queue, resources.settings.job_attempts
        ),
    }
    for name, chore in chores.items():
        try:
            chore()
        except Exception as error:
            logger.warning("upkeep failed", chore=name, reason=type(error).__name__, exc_info=error)


def _forget(resources: Resources) -> None:
    oldest = utc_now() - timedelta(hours=resources.settings.idempotency_hours)
    with resources.database.writing() as connection:
        idempotency.drop_older(connection, oldest)


def _forget_sessions(resources: Resources) -> None:
    with resources.database.writing() as connection:
        ended_sessions.drop_past(connection, utc_now())
