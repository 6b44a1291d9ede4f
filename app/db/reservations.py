"""Queries on reservations: each change is one guarded step that writes its ledger entry too."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Row,
    bindparam,
    insert,
    literal,
    select,
    update,
)

from app.db.entries import entry_from
from app.db.guarded import Follower, Guard, Guarded
from app.db.tables import Account, Budget, Kind, ReservationRow, State
from app.db.types import BIG_ID, AnyRow, UtcDateTime

TENANT = bindparam("tenant", type_=BIG_ID)
ENSEMBLE = bindparam("ensemble", type_=BIG_ID)
COUNT = bindparam("count", type_=BIG_ID)
NOW = bindparam("now", type_=UtcDateTime)
EXPIRES = bindparam("expires", type_=UtcDateTime)
RESERVATION: BindParameter[UUID] = bindparam("reservation", type_=ReservationRow.id.type)
FENCE = bindparam("owner", type_=BIG_ID)


@dataclass(frozen=True, slots=True)
class PeriodKeys:
    """The names of the periods that one moment falls in."""

    always: str
    day: str
    month: str


def _account_with_room() -> Guard:
    """The guard: the account of the present period, if the count still fits under its limit."""
    period = select(Budget.period).where(Budget.tenant_id == TENANT, Budget.ensemble_id == ENSEMBLE).scalar_subquery()
    return (
        update(Account)
        .where(Account.tenant_id == TENANT, Account.ensemble_id == ENSEMBLE)
        .where(Account.period_key.in_((bindparam("always"), bindparam("day"), bindparam("month"))))
        .where(Account.period == period)
        .where(Account.used + Account.reserved + COUNT <= Account.query_limit)
        .values(reserved=Account.reserved + COUNT)
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
    }
    return insert(ReservationRow).from_select(list(values), select(*values.values()).select_from(account))


def _after_hold(account: FromClause) -> list[Follower]:
    entry = entry_from(account, Kind.RESERVE, account.c.id, RESERVATION, TENANT, NOW, reserved=COUNT)
    return [_new_reservation(account), entry]


def _open_with_units() -> Guard:
    """The guard: the reservation, if it is open, ours, not overdue, and has the units left."""
    return (
        update(ReservationRow)
        .where(ReservationRow.id == RESERVATION, ReservationRow.tenant_id == TENANT)
        .where(ReservationRow.state == State.OPEN.value, ReservationRow.fence == FENCE, ReservationRow.expires_at > NOW)
        .where(ReservationRow.dispatched + COUNT <= ReservationRow.amount)
        .values(dispatched=ReservationRow.dispatched + COUNT, expires_at=EXPIRES)
        .returning(ReservationRow.account_id, ReservationRow.amount, ReservationRow.dispatched)
    )


def _after_dispatch(row: FromClause) -> list[Follower]:
    return [entry_from(row, Kind.DISPATCH, row.c.account_id, RESERVATION, TENANT, NOW, dispatched=COUNT)]


def _closing(state: State) -> Guard:
    """The guard: the reservation, if it is still open and ours to settle, or overdue and anyone's to expire."""
    due = ReservationRow.fence == FENCE if state is State.SETTLED else ReservationRow.expires_at <= NOW
    return (
        update(ReservationRow)
        .where(ReservationRow.id == RESERVATION, ReservationRow.tenant_id == TENANT)
        .where(ReservationRow.state == State.OPEN.value, due)
        .values(state=state.value, closed_at=NOW)
        .returning(ReservationRow.account_id, ReservationRow.amount, ReservationRow.dispatched)
    )


def _after_close(row: FromClause, kind: Kind) -> list[Follower]:
    """What was dispatched is used for good; the whole amount is no longer reserved."""
    charge = (
        update(Account)
        .where(Account.id == row.c.account_id)
        .values(used=Account.used + row.c.dispatched, reserved=Account.reserved - row.c.amount)
    )
    used, released = row.c.dispatched, -row.c.amount
    return [charge, entry_from(row, kind, row.c.account_id, RESERVATION, TENANT, NOW, reserved=released, used=used)]


HOLD = Guarded(_account_with_room(), _after_hold)
DISPATCH = Guarded(_open_with_units(), _after_dispatch)
SETTLE = Guarded(_closing(State.SETTLED), lambda row: _after_close(row, Kind.SETTLE))
EXPIRE = Guarded(_closing(State.EXPIRED), lambda row: _after_close(row, Kind.EXPIRE))


def hold(
    connection: Connection,
    tenant_id: int,
    ensemble_id: int,
    reservation_id: UUID,
    amount: int,
    keys: PeriodKeys,
    now: datetime,
    expires_at: datetime,
) -> bool:
    """Whether the amount fitted under the limit and is now reserved."""
    parameters = {
        "tenant": tenant_id,
        "ensemble": ensemble_id,
        "reservation": reservation_id,
        "count": amount,
        "always": keys.always,
        "day": keys.day,
        "month": keys.month,
        "now": now,
        "expires": expires_at,
    }
    return HOLD.run(connection, parameters) is not None


def dispatch(
    connection: Connection,
    tenant_id: int,
    reservation_id: UUID,
    fence: int,
    count: int,
    now: datetime,
    expires_at: datetime,
) -> bool:
    """Whether the units were moved to dispatched; the lease is renewed with them."""
    parameters = {
        "tenant": tenant_id,
        "reservation": reservation_id,
        "owner": fence,
        "count": count,
        "now": now,
        "expires": expires_at,
    }
    return DISPATCH.run(connection, parameters) is not None


def settle(connection: Connection, tenant_id: int, reservation_id: UUID, fence: int, now: datetime) -> AnyRow | None:
    """(account_id, amount, dispatched) of the reservation that this call closed, or None if it closed none."""
    return SETTLE.run(connection, {"tenant": tenant_id, "reservation": reservation_id, "owner": fence, "now": now})


def expire(connection: Connection, tenant_id: int, reservation_id: UUID, now: datetime) -> AnyRow | None:
    """(account_id, amount, dispatched) of the overdue reservation that this call closed, or None if it closed none."""
    return EXPIRE.run(connection, {"tenant": tenant_id, "reservation": reservation_id, "now": now})


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


def renew(
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


def find(connection: Connection, tenant_id: int, reservation_id: UUID) -> AnyRow | None:
    """The row (see `ReservationRow`), or None if the tenant has no such reservation."""
    table = ReservationRow.__table__
    statement = select(table).where(table.c.id == reservation_id, table.c.tenant_id == tenant_id)
    return connection.execute(statement).one_or_none()


def overdue(connection: Connection, now: datetime, limit: int) -> list[tuple[int, UUID]]:
    """(tenant, reservation) of open reservations whose lease has passed, of all tenants."""
    statement = (
        select(ReservationRow.tenant_id, ReservationRow.id)
        .where(ReservationRow.state == State.OPEN.value, ReservationRow.expires_at <= now)
        .limit(limit)
    )
    return [(row.tenant_id, row.id) for row in connection.execute(statement)]
