"""What to do while the database is away: wait a little, then say so. Never go on without it."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.errors import LedgerUnavailableError

T = TypeVar("T")
RETRY_SECONDS = 0.1
SQLITE_MISSING = ("no such table", "no such column")
"""What SQLite reports as if it were out of order, and Postgres as an error in the program."""


def with_patience(action: Callable[[], T], patience: timedelta) -> T:
    """The action's result; while the database is away it is tried again, then `LedgerUnavailableError`.

    A try that broke off may have been committed, so the action must be one that is safe to repeat.
    """
    give_up = time.monotonic() + patience.total_seconds()
    while True:
        try:
            return action()
        except (OperationalError, InterfaceError, ProgrammingError, PoolTimeoutError) as error:
            if isinstance(error, ProgrammingError) or _cause(error).startswith(SQLITE_MISSING):
                raise LedgerUnavailableError(
                    f"the ledger's tables are not as expected ({_cause(error)}): run `recourse migrate`"
                ) from error
            if time.monotonic() >= give_up:
                raise _unavailable(error, patience) from error
            time.sleep(RETRY_SECONDS)


def _unavailable(error: DBAPIError | PoolTimeoutError, patience: timedelta) -> LedgerUnavailableError:
    waited = patience.total_seconds()
    return LedgerUnavailableError(
        f"the ledger's database did not answer within {waited:g} s ({_cause(error)}), so nothing was asked: try later"
    )


def _cause(error: DBAPIError | PoolTimeoutError) -> str:
    """The driver's own first line; SQLAlchemy's message would repeat the statement and its parameters."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).partition("\n")[0]
