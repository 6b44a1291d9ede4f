"""The errors of the service, beside those of the method in models/errors.py.

RecourseError
├── UnknownBudgetError       no budget is set, so nothing may be asked
├── ReservationError         the reservation is closed, overdue, or has another owner by now
├── LedgerUnavailableError   the database did not answer, so no query was made
├── DeadlineError            the time that the request allowed has passed
├── NotFoundError            not there, or not the tenant's
├── EndpointError            the address of a remote black box is not one that may be called
├── AuthenticationError      no key, or one that is unknown or revoked
├── ForbiddenError           the key's role does not allow it
├── LostLeaseError           a worker writes to a job that it no longer holds
├── ConflictError            what is there already, or its state, does not allow it
│   └── InFlightError        a request with the same idempotency key is being answered
├── ReusedKeyError           an idempotency key came back with another body
├── CursorError              the cursor of a page is not one that was handed out
├── TooLargeError            a body, a table or a list is larger than the limit
├── MediaTypeError           the body is of a type or an encoding that is not read
├── OverloadedError          the queue is full: come back later
├── UnavailableError         a part of the service did not answer: come back later
├── StorageFullError         no space is left where the service writes
└── ServiceError             a service that we are a client of refused, or did not answer

A refused reservation is models.errors.QueryLimitError; too few answers are models.errors.EnsembleError.
"""

import errno
from collections.abc import Iterator

from models.errors import RecourseError


class UnknownBudgetError(RecourseError):
    """No budget is set for this tenant and ensemble, so nothing may be asked."""


class ReservationError(RecourseError):
    """The reservation is closed, overdue, or has another owner by now."""


class LedgerUnavailableError(RecourseError):
    """The database did not answer, so no query was made."""


class DeadlineError(RecourseError):
    """The time that the request allowed has passed."""


class NotFoundError(RecourseError):
    """Not there, or another tenant's."""


class EndpointError(RecourseError):
    """The address of a remote black box is not one that may be called."""


class AuthenticationError(RecourseError):
    """No key, or one that is unknown or revoked."""


class ForbiddenError(RecourseError):
    """The key's role does not allow it."""


class LostLeaseError(RecourseError):
    """A worker writes to a job that it no longer holds: another one took it over, or it has ended."""


class ConflictError(RecourseError):
    """What is there already, or its state, does not allow it."""


class InFlightError(ConflictError):
    """A request with the same idempotency key is being answered."""


class ReusedKeyError(RecourseError):
    """An idempotency key came back with another body."""


class CursorError(RecourseError):
    """The cursor of a page is not one that was handed out."""


class TooLargeError(RecourseError):
    """A body, a table or a list is larger than the limit."""


class MediaTypeError(RecourseError):
    """The body is of a type or an encoding that is not read."""


class OverloadedError(RecourseError):
    """The queue is full: come back later."""


class UnavailableError(RecourseError):
    """A part of the service did not answer: come back later."""


class StorageFullError(RecourseError):
    """No space is left where the service writes."""


class ServiceError(RecourseError):
    """A service that we are a client of refused, or did not answer."""


FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
FULL_WORDS = ("No space left on device", "disk is full", "Disk quota exceeded", "File too large", "StorageFull")
"""How libraries with errors of their own say that the disk is full: SQLite, Postgres, safetensors."""


def storage_is_full(error: BaseException) -> bool:
    """Whether the error, or one behind it, comes from a full disk."""
    return any(
        (isinstance(cause, OSError) and cause.errno in FULL) or any(word in str(cause) for word in FULL_WORDS)
        for cause in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
