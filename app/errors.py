"""The errors of the service, beside those of the method in models/errors.py.

RecourseError
├── UnknownBudgetError       no budget is set, so nothing may be asked
├── ReservationError         the reservation is closed, overdue, or has another owner by now
├── LedgerUnavailableError   the database did not answer, so no query was made
├── DeadlineError            the time that the request allowed has passed
├── NotFoundError            the tenant has nothing of that name
└── EndpointError            the address of a remote black box is not one that may be called

A refused reservation is models.errors.QueryLimitError; too few answers are models.errors.EnsembleError.
"""

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
    """The tenant has nothing of that name."""


class EndpointError(RecourseError):
    """The address of a remote black box is not one that may be called."""
