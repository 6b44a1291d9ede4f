"""The queries that one request may make."""

from app.ledger.ledger import Ledger
from app.ledger.results import Reservation, Settlement
from models.errors import QueryLimitError


class Allowance:
    """Up to `maximum` queries, reserved all at once when the first is needed: what the cache answers needs none.

    A job that goes on after a crash passes the reservation that it took over.
    """

    def __init__(
        self,
        ledger: Ledger,
        tenant_id: int,
        ensemble_id: int,
        maximum: int,
        reservation: Reservation | None = None,
    ) -> None:
        self._ledger = ledger
        self._tenant_id = tenant_id
        self._ensemble_id = ensemble_id
        self._maximum = maximum
        self._reservation = reservation
        self._spent = 0

    @property
    def reservation(self) -> Reservation | None:
        return self._reservation

    @property
    def spent(self) -> int:
        """Queries dispatched through this allowance."""
        return self._spent

    def dispatch(self, count: int) -> None:
        """Charge `count` queries, before they are made; an error means that none of them may be made."""
        if self._reservation is None:
            if self._maximum < 1:
                raise QueryLimitError(f"{count} queries were asked for, but none are left to this request: stop")
            self._reservation = self._ledger.reserve(self._tenant_id, self._ensemble_id, self._maximum)
        self._ledger.dispatch(self._reservation, count)
        self._spent += count

    def settle(self) -> Settlement | None:
        """Give back what was not used; None if nothing was ever reserved."""
        return None if self._reservation is None else self._ledger.settle(self._reservation)
