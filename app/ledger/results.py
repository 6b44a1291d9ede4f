"""What the ledger answers with."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.db.tables import Period, State


@dataclass(frozen=True, slots=True)
class Reservation:
    """The right to dispatch up to `amount` queries; whoever took the reservation over holds a higher fence."""

    id: UUID
    tenant_id: int
    fence: int
    amount: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a reservation ended."""

    reservation_id: UUID
    state: State
    charged: int
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
