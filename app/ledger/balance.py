"""What the ledger answers with, and the periods of a budget, in UTC: which one a moment falls in, when it ends."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from app.db.ledger_tables import Period, State
from app.ledger.steps import PeriodKeys

ALWAYS = "always"


def period_key(period: Period, moment: datetime) -> str:
    """The name of the period that `moment` falls in: "always", "2026-11-16" or "2026-11"."""
    match period:
        case Period.NONE:
            return ALWAYS
        case Period.DAY:
            return f"{moment.astimezone(UTC):%Y-%m-%d}"
        case Period.MONTH:
            return f"{moment.astimezone(UTC):%Y-%m}"


def period_keys(moment: datetime) -> PeriodKeys:
    """The names of all the periods that `moment` falls in."""
    day = f"{moment.astimezone(UTC):%Y-%m-%d}"
    return PeriodKeys(ALWAYS, day, day[:7])


def period_start(period: Period, moment: datetime) -> datetime | None:
    """When the period of `moment` began, or None if it always was."""
    midnight = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match period:
        case Period.NONE:
            return None
        case Period.DAY:
            return midnight
        case Period.MONTH:
            return midnight.replace(day=1)


def period_end(period: Period, moment: datetime) -> datetime | None:
    """When the next period begins, or None if there is none."""
    start = period_start(period, moment)
    if start is None:
        return None
    if period is Period.DAY:
        return start + timedelta(days=1)
    return (start + timedelta(days=32)).replace(day=1)


@dataclass(frozen=True, slots=True)
class Reservation:
    """The right to dispatch up to `amount` queries; whoever took the reservation over holds a higher fence."""

    id: UUID
    tenant_id: int
    fence: int
    amount: int


def following(closed: UUID) -> UUID:
    """The id of the reservation behind a closed one: the same for every process, so that it is found after a crash."""
    return uuid5(closed, "rest")


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a reservation ended."""

    reservation_id: UUID
    state: State
    dispatched: int
    released: int


@dataclass(frozen=True, slots=True)
class Balance:
    """A budget in its present period; `remaining` is never negative, even after the limit was lowered below `used`."""

    period: Period
    period_key: str
    period_ends: datetime | None
    limit: int
    used: int
    reserved: int

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used - self.reserved)
