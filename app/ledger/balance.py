"""What the ledger answers with, its refusals, and the periods of a budget, in UTC: which one holds, when it ends."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from app.db.ledger_tables import Period, State
from app.db.tables import AnyRow
from app.errors import ConflictError, ReservationError, UnknownBudgetError
from models.errors import ConfigError, QueryLimitError

ALWAYS = "always"
MOST_REASON, MOST_MAKER = 500, 200


@dataclass(frozen=True, slots=True)
class PeriodKeys:
    """The names of the periods that one moment falls in."""

    always: str
    day: str
    month: str


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


@dataclass(frozen=True, slots=True)
class Correction:
    """Queries that are given back (below 0) or added, why and by whom; perhaps the entry that they take back."""

    queries: int
    reason: str
    made_by: str
    reverses: int | None = None

    def __post_init__(self) -> None:
        if self.queries == 0:
            raise ConfigError("a correction of 0 queries makes no sense: give back below 0, or add above it")
        if not 0 < len(self.reason.strip()) <= len(self.reason) <= MOST_REASON:
            raise ConfigError(f"a correction needs a reason of 1 to {MOST_REASON} characters")


def settlement(reservation_id: UUID, state: State, row: AnyRow) -> Settlement:
    return Settlement(reservation_id, state, dispatched=row.dispatched, released=row.amount - row.dispatched)


def no_budget(tenant_id: int, ensemble_id: int) -> UnknownBudgetError:
    return UnknownBudgetError(f"tenant {tenant_id} has set no budget for ensemble {ensemble_id}: set a limit first")


def too_many(amount: int, balance: Balance) -> QueryLimitError:
    return QueryLimitError(
        f"{amount} queries were asked for, but {balance.remaining} of {balance.limit} remain "
        f"({balance.used} used, {balance.reserved} reserved): ask for fewer or raise the limit"
    )


def no_room(count: int, balance: Balance) -> ConflictError:
    if count < 0:
        fact = f"{-count} queries cannot be given back, {balance.used} are used in the period {balance.period_key!r}"
        return ConflictError(f"{fact}: give back no more than that")
    room = f"{balance.remaining} of {balance.limit} remain ({balance.used} used, {balance.reserved} reserved)"
    return ConflictError(f"{count} queries cannot be added, {room}: raise the limit first")


def refusal(reservation: Reservation, row: AnyRow | None, count: int, now: datetime) -> Exception | None:
    """Why `count` queries cannot be dispatched from the reservation's row; None where only its period is over."""
    name = f"reservation {reservation.id}"
    if row is None:
        return gone(reservation)
    if row.state != State.OPEN:
        return ReservationError(f"{name} is {row.state} since {row.closed_at.isoformat()}: make a new one")
    if row.fence != reservation.fence:
        return ReservationError(f"{name} was taken over (fence {row.fence}, ours is {reservation.fence}): stop")
    if row.dispatched + count > row.amount:
        left = row.amount - row.dispatched
        return QueryLimitError(f"{count} queries were asked for, but {left} of {row.amount} reserved remain: stop")
    if row.expires_at <= now:
        return ReservationError(f"{name} is overdue since {row.expires_at.isoformat()}: make a new one")
    return None


def gone(reservation: Reservation) -> ReservationError:
    owner = f"tenant {reservation.tenant_id}"
    return ReservationError(f"reservation {reservation.id} does not exist for {owner}: make a new one")
