"""Reserve, dispatch, settle, expire: the only code that moves a budget's counters.

The invariant, always and after any crash: calls seen by the black box <= dispatched <= used + reserved <= limit.

A correction adds to `used`, or takes from it, by an entry of its own; what was dispatched stays as it was. So an
account's `used` is what its closed reservations dispatched plus its corrections, and the invariant reads

    calls <= dispatched <= used - corrections + reserved,   0 <= used,   used + reserved <= limit.

What an admin gives back may be asked once more: that, and only that, is above the limit.

A query counts for the period in which it is dispatched: a reservation dispatches nothing after its period is over.

Lowering a limit: from that moment nothing new is reserved until used + reserved fits under the new limit again;
reservations that were granted before keep all of their units, and what is used stays used. Clocks decide only when a
period turns and when a lease is overdue; no clock, however wrong, lets a query pass that the counters do not allow.

Another kind of period counts by other counters: what was used in the present one is not in them. Nobody may exceed a
limit that way without knowing: such a change has to say `restart`.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar
from uuid import UUID, uuid4

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.db.engine import Database, retry_database
from app.db.ledger_tables import Period, State
from app.db.tables import AnyRow, utc_now
from app.errors import ReservationError
from app.ledger import queries, steps
from app.ledger.balance import (
    Balance,
    Correction,
    Reservation,
    Settlement,
    following,
    gone,
    no_room,
    period_key,
    period_keys,
    refusal,
    settlement,
    too_many,
)
from app.ledger.chain import ChainKey, KnownTips, Owner, Tip
from app.ledger.steps import Move, Taken
from models.errors import ConfigError

Clock: TypeAlias = Callable[[], datetime]
T = TypeVar("T")

EXPIRE_BATCH = 500
MOST_QUERIES = 10**15
"""The largest limit: its sums still fit into a counter of the database."""


class Ledger:
    """The budgets of all tenants, over one database.

    key: of the chain over the entries.
    lease: how long a reservation lives without a dispatch or a renewal before anyone may expire it.
    patience: how long a lost database is waited for before `LedgerUnavailableError`.
    """

    def __init__(
        self,
        database: Database,
        key: ChainKey,
        clock: Clock = utc_now,
        lease: timedelta = timedelta(minutes=15),
        patience: timedelta = timedelta(seconds=5),
    ) -> None:
        self._database = database
        self._key = key
        self._tips = KnownTips()
        self._clock = clock
        self._lease = lease
        self._patience = patience

    def set_limit(
        self, tenant_id: int, ensemble_id: int, limit: int, period: Period | None = None, restart: bool = False
    ) -> Balance:
        """Make or change a budget; see the rules for lowered limits and other periods above.

        period None: as it is, without an end for a new budget. ConflictError for another period where queries are used.
        """
        if not 0 <= limit <= MOST_QUERIES:
            raise ConfigError(f"a limit of {limit} queries makes no sense: use 0 to {MOST_QUERIES}")
        now = self._clock()

        def change(connection: Connection) -> Balance:
            before = queries.lock_budget(connection, tenant_id, ensemble_id)
            kept = period or (Period.NONE if before is None else Period(before.period))
            if before is not None and not restart:
                queries.check_period(connection, tenant_id, ensemble_id, kept, now)
            present = period_key(kept, now)
            queries.put_budget(connection, tenant_id, ensemble_id, kept, limit, now)
            queries.open_account(connection, self._key, tenant_id, ensemble_id, kept, present, limit, now)
            queries.change_limits(connection, self._key, tenant_id, ensemble_id, kept, present, limit, now)
            return queries.find_balance(connection, tenant_id, ensemble_id, now)

        return self._write(change)

    def check_period(self, tenant_id: int, ensemble_id: int, period: Period | None) -> None:
        """ConflictError if `set_limit` with this period would need `restart`."""

        def look(connection: Connection) -> None:
            if period is not None and queries.find_budget(connection, tenant_id, ensemble_id) is not None:
                queries.check_period(connection, tenant_id, ensemble_id, period, self._clock())

        self._read(look)

    def balance(self, tenant_id: int, ensemble_id: int) -> Balance:
        """The budget as it stands in the present period."""
        return self._read(lambda c: queries.find_balance(c, tenant_id, ensemble_id, self._clock()))

    def correct(self, connection: Connection, tenant_id: int, ensemble_id: int, correction: Correction) -> Balance:
        """Give back used queries of the present period, or add some, by an entry of its own; the caller commits.

        An addition that would pass the limit is refused (raise the limit first), and so is a return of more than is
        used. An entry can be taken back in several parts, never by more than it added.
        """
        if abs(correction.queries) > MOST_QUERIES:
            raise ConfigError(f"a correction of {correction.queries} queries is too large: use {MOST_QUERIES} at most")
        now, owner = self._clock(), (tenant_id, ensemble_id)
        # The budget's row is held: two corrections of one entry come after each other.
        queries.open_period(connection, self._key, *owner, now)
        if correction.reverses is not None:
            queries.check_reversal(connection, *owner, correction.queries, correction.reverses)
        tip = steps.look(connection, tenant_id, owner, now)
        move = None if tip is None else Move(connection, self._key, tip, tenant_id, now)
        if move is None or move.correct(ensemble_id, correction, period_keys(now)) is None:
            raise no_room(correction.queries, queries.find_balance(connection, *owner, now))
        return queries.find_balance(connection, *owner, now)

    def reserve(
        self,
        tenant_id: int,
        ensemble_id: int,
        amount: int,
        reservation_id: UUID | None = None,
        beside: UUID | None = None,
    ) -> Reservation:
        """Promise `amount` queries to one request, all of them or, with `QueryLimitError`, none.

        A job names the id, having written it down before: then a crash in between leaves nothing that nobody knows of.
        beside: the reservation of another budget that this one goes with; see `accompany`.
        """
        if amount < 1:
            raise ConfigError(f"a reservation of {amount} queries makes no sense: reserve 1 or more")
        reservation = Reservation(reservation_id or uuid4(), tenant_id, fence=1, amount=amount)
        if self._reserve(reservation, ensemble_id, beside):
            return reservation
        # Not in the fast path: a new period has no account yet, and a crashed owner may still hold what is missing.
        self._write(lambda c: queries.open_period(c, self._key, tenant_id, ensemble_id, self._clock()))
        if self._reserve(reservation, ensemble_id, beside):
            return reservation
        self.expire()
        if self._reserve(reservation, ensemble_id, beside):
            return reservation
        raise too_many(amount, self.balance(tenant_id, ensemble_id))

    def accompany(self, reservation: Reservation, budget: tuple[int, int], amount: int) -> Reservation:
        """Promise the same queries in another budget (tenant, ensemble), too: that of an endpoint (`bindings`).

        Both are dispatched before a query is made, this one first: whatever happens in between, neither counts less
        than was asked. After a crash the open one is taken over. `amount`: what the request may still ask.
        """
        for row in self._read(lambda connection: queries.open_beside(connection, reservation.id)):
            if (row.tenant_id, row.ensemble_id) == budget:
                with suppress(ReservationError):  # It expired just now.
                    return self.take_over(row.tenant_id, row.id)
        return self.reserve(*budget, amount, beside=reservation.id)

    def settle_beside(self, reservation: Reservation) -> None:
        """Close what a dead process left open beside a reservation."""
        for row in self._read(lambda connection: queries.open_beside(connection, reservation.id)):
            with suppress(ReservationError):
                self.settle(self.take_over(row.tenant_id, row.id))

    def check_room(self, tenant_id: int, ensemble_id: int, amount: int) -> None:
        """`QueryLimitError` if `reserve` would refuse as things are: nothing is promised."""
        if self.balance(tenant_id, ensemble_id).remaining >= amount:
            return
        # A crashed owner may still hold what is missing.
        self.expire()
        balance = self.balance(tenant_id, ensemble_id)
        if balance.remaining < amount:
            raise too_many(amount, balance)

    def dispatch(self, reservation: Reservation, count: int) -> Reservation:
        """Charge `count` queries, before they are made; an error means that none of them may be made.

        Go on with the reservation that comes back: it is another one where the period has turned since. A query counts
        for the period in which it is dispatched, so what an old reservation has left is reserved again in the present
        period, or, with `QueryLimitError`, it is not.

        If the database breaks off in the middle, the charge may be there although this raises, or twice although it
        does not: an unknown outcome is always counted as dispatched.
        """
        if count < 1:
            raise ConfigError(f"{count} queries cannot be dispatched: dispatch 1 or more")

        while not self._dispatch(reservation, count):
            reservation = self._moved(reservation, count)
        return reservation

    def settle(self, reservation: Reservation) -> Settlement:
        """Close the reservation: what was dispatched is used, the rest is released. A second call changes nothing."""

        closed = self._close(reservation.tenant_id, reservation.id, reservation.fence)
        if closed is not None:
            return settlement(reservation.id, State.SETTLED, closed)
        row = self._find(reservation)
        if row is None or row.state == State.OPEN:
            raise refusal(reservation, row, 0, self._clock()) or gone(reservation)
        return settlement(reservation.id, State(row.state), row)

    def expire(self) -> list[Settlement]:
        """Close every overdue reservation of every tenant, charging what was dispatched."""
        settlements = []
        now, full = self._clock(), True
        while full:
            overdue = self._read(lambda c: queries.overdue_reservations(c, now, EXPIRE_BATCH))
            full = len(overdue) == EXPIRE_BATCH
            for tenant_id, reservation_id in overdue:
                closed = self._close(tenant_id, reservation_id, None)
                if closed is not None:
                    settlements.append(settlement(reservation_id, State.EXPIRED, closed))
        return settlements

    def renew(self, reservation: Reservation) -> None:
        """Move the lease on, for an owner that is busy without asking anything."""
        now = self._clock()
        owner = (reservation.tenant_id, reservation.id, reservation.fence)
        if not self._write(lambda connection: steps.renew_reservation(connection, *owner, now, now + self._lease)):
            raise refusal(reservation, self._find(reservation), 0, self._clock()) or gone(reservation)

    def take_over(self, tenant_id: int, reservation_id: UUID) -> Reservation:
        """Become the owner of a crashed process's reservation; from now on the old owner can dispatch nothing."""
        expires_at = self._clock() + self._lease
        taken = self._write(lambda c: steps.change_owner(c, tenant_id, reservation_id, expires_at))
        if taken is None:
            raise ReservationError(
                f"reservation {reservation_id} is not open, so it cannot be taken over: make a new one"
            )
        return Reservation(reservation_id, tenant_id, taken.fence, taken.amount)

    def _reserve(self, reservation: Reservation, ensemble_id: int, beside: UUID | None) -> bool:
        owner = (reservation.tenant_id, ensemble_id)

        def take(move: Move) -> Taken | None:
            keys, expires_at = period_keys(move.now), move.now + self._lease
            return move.reserve(ensemble_id, reservation.id, reservation.amount, keys, expires_at, beside)

        try:
            reserved = self._step(reservation.tenant_id, owner, take) is not None
            self._tips.share(owner, reservation.id)
        except IntegrityError:
            if self._find(reservation) is None:
                raise
            reserved = True
        # A try whose answer was lost with the connection may have been committed, and taken the units itself.
        return reserved or self._find(reservation) is not None

    def _dispatch(self, reservation: Reservation, count: int) -> bool:
        def charge(move: Move) -> Taken | None:
            keys, expires_at = period_keys(move.now), move.now + self._lease
            return move.dispatch(reservation.id, reservation.fence, count, keys, expires_at)

        return self._step(reservation.tenant_id, reservation.id, charge) is not None

    def _close(self, tenant_id: int, reservation_id: UUID, fence: int | None) -> AnyRow | None:
        """(account_id, amount, dispatched) of the reservation that this call closed, or None if it closed none."""
        closed = self._step(tenant_id, reservation_id, lambda move: move.close(reservation_id, fence))
        self._tips.forget(reservation_id)
        return closed

    def _moved(self, reservation: Reservation, count: int) -> Reservation:
        """What the reservation has left, in the present period; the refusal, if its period is not what is over."""
        row = self._find(reservation)
        refused = refusal(reservation, row, count, self._clock())
        if refused is not None or row is None:
            raise refused or gone(reservation)
        account = self._read(lambda connection: queries.find_account_of(connection, row.account_id))
        left, owner = self.settle(reservation).released, (reservation.tenant_id, account.ensemble_id)
        moved = self.reserve(*owner, left, following(reservation.id), row.beside)
        self._write(lambda connection: steps.go_beside(connection, reservation.id, moved.id))
        return moved

    def _find(self, reservation: Reservation) -> AnyRow | None:
        return self._read(
            lambda connection: queries.find_reservation(connection, reservation.tenant_id, reservation.id)
        )

    def _step(self, tenant_id: int, owner: Owner, action: Callable[[Move], Taken | None]) -> AnyRow | None:
        """What the guard returned; None if it refused.

        Where nobody else wrote to the account since this process did, one statement does it. Else the account is looked
        at first, and where others write all the time, it is held meanwhile.
        """

        def move(connection: Connection, tip: Tip | None, now: datetime) -> Taken | None:
            return None if tip is None else action(Move(connection, self._key, tip, tenant_id, now))

        def take() -> AnyRow | None:
            taken, looked, known, now = None, None, self._tips.find(owner), self._clock()
            busy = self._tips.is_busy(owner)
            if known is not None:
                with self._database.stepping() as connection:
                    taken = move(connection, known, now)
            if taken is None and not busy:
                with self._database.stepping() as connection:
                    looked = steps.look(connection, tenant_id, owner, now, hold=False)
                    taken = move(connection, looked, now)
            missed = taken is None and not busy
            if taken is None:
                with self._database.holding() as connection:
                    looked = steps.look(connection, tenant_id, owner, now)
                    taken = move(connection, looked, now)
            if taken is None:
                return None
            self._tips.left(owner, taken.tip, looked, missed)
            return taken.row

        def run() -> AnyRow | None:
            with self._tips.turn(owner, self._patience.total_seconds()):
                return take()

        return retry_database(run, self._patience)

    def _write(self, action: Callable[[Connection], T]) -> T:
        def run() -> T:
            with self._database.writing() as connection:
                return action(connection)

        return retry_database(run, self._patience)

    def _read(self, action: Callable[[Connection], T]) -> T:
        def run() -> T:
            with self._database.reading() as connection:
                return action(connection)

        return retry_database(run, self._patience)
