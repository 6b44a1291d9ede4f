"""Each change of a reservation (reserve, dispatch, settle, expire) as one guarded atomic step.

A `Guarded` step is an UPDATE whose WHERE is the ledger's invariant (see ledger.py), and the rows that must follow it,
the entry of the ledger among them, with its place in the chain (chain.py). Where the guard finds no row nothing is
changed, and no query may be made.

An entry's MAC covers what stands before it, so each guard also asks that the account's chain still ends where the
caller saw it end. Locks are taken in one order: the account, then the reservation.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    LargeBinary,
    Row,
    ScalarSelect,
    String,
    bindparam,
    func,
    insert,
    literal,
    select,
    update,
)

from app.db.engine import Follower, Guard, Guarded
from app.db.ledger_tables import Account, Budget, EntryType, ReservationRow, State
from app.db.tables import BIG_ID, AnyRow, UtcDateTime
from app.ledger.balance import Correction, PeriodKeys, period_keys
from app.ledger.chain import ChainKey, Line, Owner, Tip
from app.ledger.queries import entry_from, find_reservation

TENANT = bindparam("tenant", type_=BIG_ID)
ENSEMBLE = bindparam("ensemble", type_=BIG_ID)
ACCOUNT = bindparam("account", type_=BIG_ID)
COUNT = bindparam("count", type_=BIG_ID)
NOW = bindparam("now", type_=UtcDateTime)
EXPIRES = bindparam("expires", type_=UtcDateTime)
RESERVATION: BindParameter[UUID] = bindparam("reservation", type_=ReservationRow.id.type)
BESIDE: BindParameter[UUID | None] = bindparam("beside", type_=ReservationRow.id.type)
FENCE = bindparam("owner", type_=BIG_ID)
NUMBER = bindparam("place", type_=BIG_ID)
MAC: BindParameter[bytes] = bindparam("link_mac", type_=LargeBinary())
HEAD: BindParameter[bytes] = bindparam("next_head", type_=LargeBinary())
NO_HEAD: ColumnElement[bytes] = literal(b"", LargeBinary())
NEXT_IN_CHAIN = (Account.chain_number == NUMBER - 1) & (
    func.coalesce(Account.chain_head, NO_HEAD) == bindparam("head_before", type_=LargeBinary())
)
"""The head too: a caller that remembers an older one must not lend it to whoever cut off the newest entries."""
CHAINED = {"chain_number": NUMBER, "chain_head": HEAD}


def _of_present_period() -> ColumnElement[bool]:
    return Account.period_key.in_((bindparam("always"), bindparam("day"), bindparam("month")))


def _of_present_budget() -> ColumnElement[bool]:
    period = select(Budget.period).where(Budget.tenant_id == TENANT, Budget.ensemble_id == ENSEMBLE).scalar_subquery()
    owned = (Account.tenant_id == TENANT) & (Account.ensemble_id == ENSEMBLE)
    return owned & _of_present_period() & (Account.period == period)


def _account_with_room() -> Guard:
    """The guard: the account of the present period, if the count still fits under its limit."""
    return (
        update(Account)
        .where(Account.id == ACCOUNT, NEXT_IN_CHAIN, _of_present_budget())
        .where(Account.used + Account.reserved + COUNT <= Account.query_limit)
        .values(reserved=Account.reserved + COUNT, **CHAINED)
        .returning(Account.id)
    )


def _new_reservation(account: FromClause) -> Insert:
    values: dict[str, ColumnElement[Any]] = {
        "id": RESERVATION,
        "tenant_id": TENANT,
        "account_id": account.c.id,
        "amount": COUNT,
        "dispatched": literal(0, BIG_ID),
        "state": literal(State.OPEN.value),
        "fence": literal(1, BIG_ID),
        "created_at": NOW,
        "expires_at": EXPIRES,
        "beside": BESIDE,
    }
    return insert(ReservationRow).from_select(list(values), select(*values.values()).select_from(account))


_PLACE: dict[str, ColumnElement[Any]] = {
    "tenant_id": TENANT,
    "account_id": ACCOUNT,
    "at": NOW,
    "number": NUMBER,
    "mac": MAC,
}


def _entry(row: FromClause, kind: EntryType, **counters: ColumnElement[int]) -> Insert:
    return entry_from(row, kind, _PLACE | {"reservation_id": RESERVATION} | counters)


def _after_reserve(account: FromClause) -> list[Follower]:
    return [_new_reservation(account), _entry(account, EntryType.RESERVE, reserved=COUNT)]


def _held_account(*conditions: ColumnElement[bool]) -> ScalarSelect[int]:
    """The account, locked before anything else is."""
    return (
        select(Account.id).where(Account.id == ACCOUNT, NEXT_IN_CHAIN, *conditions).with_for_update().scalar_subquery()
    )


def _open_with_units() -> Guard:
    """The guard: the reservation, if it is open, ours, not overdue, of the present period, and has the units left."""
    return (
        update(ReservationRow)
        .where(ReservationRow.account_id == _held_account(_of_present_period()))
        .where(ReservationRow.id == RESERVATION, ReservationRow.tenant_id == TENANT)
        .where(ReservationRow.state == State.OPEN.value, ReservationRow.fence == FENCE, ReservationRow.expires_at > NOW)
        .where(ReservationRow.dispatched + COUNT <= ReservationRow.amount)
        .values(dispatched=ReservationRow.dispatched + COUNT, expires_at=EXPIRES)
        .returning(ReservationRow.account_id)
    )


def _after_dispatch(row: FromClause) -> list[Follower]:
    link = update(Account).where(Account.id == row.c.account_id).values(**CHAINED)
    return [link, _entry(row, EntryType.DISPATCH, dispatched=COUNT)]


def _closing(state: State) -> Guard:
    """The guard: the reservation, if it is still open and ours to settle, or overdue and anyone's to expire."""
    due = ReservationRow.fence == FENCE if state is State.SETTLED else ReservationRow.expires_at <= NOW
    return (
        update(ReservationRow)
        .where(ReservationRow.account_id == _held_account())
        .where(ReservationRow.id == RESERVATION, ReservationRow.tenant_id == TENANT)
        .where(ReservationRow.state == State.OPEN.value, due, ReservationRow.dispatched == COUNT)
        .values(state=state.value, closed_at=NOW)
        .returning(ReservationRow.account_id, ReservationRow.amount, ReservationRow.dispatched)
    )


def _after_close(row: FromClause, kind: EntryType) -> list[Follower]:
    """What was dispatched is used for good; the whole amount is no longer reserved."""
    charge = (
        update(Account)
        .where(Account.id == row.c.account_id)
        .values(used=Account.used + row.c.dispatched, reserved=Account.reserved - row.c.amount, **CHAINED)
    )
    return [charge, _entry(row, kind, reserved=-row.c.amount, used=row.c.dispatched)]


def _account_to_correct() -> Guard:
    """The guard: the account of the present period, if the count (below 0 to give back) keeps it within its bounds."""
    return (
        update(Account)
        .where(Account.id == ACCOUNT, NEXT_IN_CHAIN, _of_present_budget(), Account.used + COUNT >= 0)
        .where((COUNT < 0) | (Account.used + Account.reserved + COUNT <= Account.query_limit))
        .values(used=Account.used + COUNT, **CHAINED)
        .returning(Account.id)
    )


def _after_correct(account: FromClause) -> list[Follower]:
    said: dict[str, ColumnElement[Any]] = {
        "reason": bindparam("why", type_=String()),
        "made_by": bindparam("who", type_=String()),
        "reverses": bindparam("taken_back", type_=BIG_ID),
        "used": COUNT,
    }
    return [entry_from(account, EntryType.CORRECT, _PLACE | said)]


RESERVE = Guarded(_account_with_room(), _after_reserve)
DISPATCH = Guarded(_open_with_units(), _after_dispatch)
SETTLE = Guarded(_closing(State.SETTLED), lambda row: _after_close(row, EntryType.SETTLE))
EXPIRE = Guarded(_closing(State.EXPIRED), lambda row: _after_close(row, EntryType.EXPIRE))
CORRECT = Guarded(_account_to_correct(), _after_correct)
TIP = select(Account.id, Account.chain_number, Account.chain_head)
TIP_OF_BUDGET = TIP.where(_of_present_budget())
TIP_OF_RESERVATION = TIP.where(
    Account.id
    == select(ReservationRow.account_id)
    .where(ReservationRow.id == RESERVATION, ReservationRow.tenant_id == TENANT)
    .scalar_subquery()
)


@dataclass(frozen=True, slots=True)
class Taken:
    """What the guard of a step returned, and where the chain ends after it."""

    row: AnyRow
    tip: Tip


def look(connection: Connection, tenant_id: int, owner: Owner, now: datetime, hold: bool = True) -> Tip | None:
    """Where the chain of the owner's account ends; `hold`: nobody else writes until the transaction ends."""
    given: dict[str, object]
    if isinstance(owner, UUID):
        statement, given = TIP_OF_RESERVATION, {"tenant": tenant_id, "reservation": owner}
    else:
        statement, given = TIP_OF_BUDGET, {"tenant": owner[0], "ensemble": owner[1], **asdict(period_keys(now))}
    row = connection.execute(statement.with_for_update(of=Account) if hold else statement, given).one_or_none()
    return None if row is None else Tip(row.id, row.chain_number, row.chain_head or b"")


@dataclass(frozen=True, slots=True)
class Move:
    """One step for one tenant at one moment, and the chain that it goes on with."""

    connection: Connection
    key: ChainKey
    tip: Tip
    tenant_id: int
    now: datetime

    def reserve(
        self,
        ensemble_id: int,
        reservation_id: UUID,
        amount: int,
        keys: PeriodKeys,
        expires_at: datetime,
        beside: UUID | None,
    ) -> Taken | None:
        """Reserve the amount, if it fits under the limit."""
        line = Line(self.tenant_id, self.tip.account_id, EntryType.RESERVE, self.now, reservation_id, reserved=amount)
        given = {"ensemble": ensemble_id, "count": amount, "expires": expires_at, "beside": beside, **asdict(keys)}
        return self._run(RESERVE, line, given)

    def dispatch(
        self, reservation_id: UUID, fence: int, count: int, keys: PeriodKeys, expires_at: datetime
    ) -> Taken | None:
        """Move the units to dispatched; the lease is renewed with them."""
        line = Line(self.tenant_id, self.tip.account_id, EntryType.DISPATCH, self.now, reservation_id, dispatched=count)
        return self._run(DISPATCH, line, {"owner": fence, "count": count, "expires": expires_at, **asdict(keys)})

    def close(self, reservation_id: UUID, fence: int | None) -> Taken | None:
        """Settle the reservation, its row being (account_id, amount, dispatched); without a fence, expire it."""
        row = find_reservation(self.connection, self.tenant_id, reservation_id)
        if row is None:
            return None
        step, kind = (EXPIRE, EntryType.EXPIRE) if fence is None else (SETTLE, EntryType.SETTLE)
        place = (self.tenant_id, self.tip.account_id, kind, self.now, reservation_id)
        line = Line(*place, reserved=-row.amount, used=row.dispatched)
        return self._run(step, line, {"owner": fence, "count": row.dispatched})

    def correct(self, ensemble_id: int, correction: Correction, keys: PeriodKeys) -> Taken | None:
        """Change what is used, if it stays within 0 and, where it grows, the limit."""
        wanted = correction
        line = Line(
            self.tenant_id,
            self.tip.account_id,
            EntryType.CORRECT,
            self.now,
            used=wanted.queries,
            reason=wanted.reason,
            made_by=wanted.made_by,
            reverses=wanted.reverses,
        )
        said = {"why": wanted.reason, "who": wanted.made_by, "taken_back": wanted.reverses}
        return self._run(CORRECT, line, {"ensemble": ensemble_id, "count": wanted.queries, **said, **asdict(keys)})

    def _run(self, step: Guarded, line: Line, given: Mapping[str, object]) -> Taken | None:
        link = self.key.link(self.tip, line)
        parameters = {
            "tenant": line.tenant_id,
            "account": line.account_id,
            "reservation": line.reservation_id,
            "now": line.at,
            "place": link.number,
            "link_mac": link.mac,
            "next_head": link.head,
            "head_before": self.tip.head,
            **given,
        }
        row = step.run(self.connection, parameters)
        return None if row is None else Taken(row, Tip(line.account_id, link.number, link.head))


def change_owner(
    connection: Connection, tenant_id: int, reservation_id: UUID, expires_at: datetime
) -> Row[int, int] | None:
    """(fence, amount) of the open reservation after its fence went up, or None if it is not open."""
    statement = (
        update(ReservationRow)
        .where(ReservationRow.id == reservation_id, ReservationRow.tenant_id == tenant_id)
        .where(ReservationRow.state == State.OPEN.value)
        .values(fence=ReservationRow.fence + 1, expires_at=expires_at)
        .returning(ReservationRow.fence, ReservationRow.amount)
    )
    return connection.execute(statement).one_or_none()


def renew_reservation(
    connection: Connection, tenant_id: int, reservation_id: UUID, fence: int, now: datetime, expires_at: datetime
) -> bool:
    """Whether the lease of the open reservation was moved."""
    statement = (
        update(ReservationRow)
        .where(ReservationRow.id == reservation_id, ReservationRow.tenant_id == tenant_id)
        .where(ReservationRow.state == State.OPEN.value, ReservationRow.fence == fence, ReservationRow.expires_at > now)
        .values(expires_at=expires_at)
    )
    return connection.execute(statement).rowcount == 1


def go_beside(connection: Connection, before: UUID, after: UUID) -> None:
    """What went beside one reservation goes beside the one that follows it."""
    open_ones = (ReservationRow.beside == before) & (ReservationRow.state == State.OPEN.value)
    connection.execute(update(ReservationRow).where(open_ones).values(beside=after))
