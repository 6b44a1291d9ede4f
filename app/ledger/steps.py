"""Each change of a reservation (reserve, dispatch, settle, expire) as one guarded atomic step.

A `Guarded` step is an UPDATE whose WHERE is the ledger's invariant (see ledger.py), and the rows that must follow it,
the entry of the ledger among them. Where the guard finds no row nothing is changed, and no query may be made.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Row,
    Update,
    bindparam,
    insert,
    literal,
    make_url,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from app.db.ledger_tables import Account, Budget, EntryType, ReservationRow, State
from app.db.tables import BIG_ID, AnyRow, UtcDateTime
from app.ledger.queries import entry_from

Guard: TypeAlias = ReturningUpdate[*tuple[Any, ...]]
Follower: TypeAlias = Insert | Update
Follow: TypeAlias = Callable[[FromClause], Sequence[Follower]]


class Guarded:
    """If, and only if, the guard finds its row, the followers run with what the guard returned.

    Postgres gets one statement, the guard being a CTE: one round trip, and the lock is held no longer than the commit.
    SQLite cannot write inside a CTE, so there the same statements run one after the other, inside the transaction.
    """

    def __init__(self, guard: Guard, follow: Follow) -> None:
        self._guard = guard
        self._single, self._constants = _single_statement(guard, follow)
        self._returned = tuple(column.name for column in guard.exported_columns)
        self._followers = tuple(follow(_as_parameters(guard)))

    def run(self, connection: Connection, parameters: Mapping[str, object]) -> AnyRow | None:
        """What the guard returned, or None if it found no row and nothing was done."""
        if connection.dialect.name == "postgresql":
            return connection.exec_driver_sql(self._single, {**self._constants, **parameters}).one_or_none()
        row = connection.execute(self._guard, parameters).one_or_none()
        if row is not None:
            found = {_returned_name(name): value for name, value in zip(self._returned, row, strict=True)}
            for follower in self._followers:
                connection.execute(follower, {**parameters, **found})
        return row


def _single_statement(guard: Guard, follow: Follow) -> tuple[str, dict[str, object]]:
    """The SQL for Postgres and the values in it that never change, compiled once and not looked up at each step."""
    guarded = guard.cte("guarded")
    statement = select(guarded)
    for number, follower in enumerate(follow(guarded)):
        statement = statement.add_cte(follower.cte(f"follower_{number}"))
    compiled = statement.compile(dialect=make_url("postgresql+psycopg://").get_dialect()())
    return str(compiled), {name: value for name, value in compiled.params.items() if value is not None}


def _as_parameters(guard: Guard) -> FromClause:
    """The guard's row as a subquery of bound values."""
    columns = guard.exported_columns
    return select(*(bindparam(_returned_name(c.name), type_=c.type).label(c.name) for c in columns)).subquery("guarded")


def _returned_name(column: str) -> str:
    return f"guarded_{column}"


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


def _of_present_period() -> ColumnElement[bool]:
    return Account.period_key.in_((bindparam("always"), bindparam("day"), bindparam("month")))


def _account_with_room() -> Guard:
    """The guard: the account of the present period, if the count still fits under its limit."""
    period = select(Budget.period).where(Budget.tenant_id == TENANT, Budget.ensemble_id == ENSEMBLE).scalar_subquery()
    return (
        update(Account)
        .where(Account.tenant_id == TENANT, Account.ensemble_id == ENSEMBLE)
        .where(_of_present_period(), Account.period == period)
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


def _after_reserve(account: FromClause) -> list[Follower]:
    entry = entry_from(account, EntryType.RESERVE, account.c.id, RESERVATION, TENANT, NOW, reserved=COUNT)
    return [_new_reservation(account), entry]


def _open_with_units() -> Guard:
    """The guard: the reservation, if it is open, ours, not overdue, of the present period, and has the units left."""
    of_now = select(Account.id).where(Account.id == ReservationRow.account_id, _of_present_period()).exists()
    return (
        update(ReservationRow)
        .where(ReservationRow.id == RESERVATION, ReservationRow.tenant_id == TENANT, of_now)
        .where(ReservationRow.state == State.OPEN.value, ReservationRow.fence == FENCE, ReservationRow.expires_at > NOW)
        .where(ReservationRow.dispatched + COUNT <= ReservationRow.amount)
        .values(dispatched=ReservationRow.dispatched + COUNT, expires_at=EXPIRES)
        .returning(ReservationRow.account_id, ReservationRow.amount, ReservationRow.dispatched)
    )


def _after_dispatch(row: FromClause) -> list[Follower]:
    return [entry_from(row, EntryType.DISPATCH, row.c.account_id, RESERVATION, TENANT, NOW, dispatched=COUNT)]


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


def _after_close(row: FromClause, kind: EntryType) -> list[Follower]:
    """What was dispatched is used for good; the whole amount is no longer reserved."""
    charge = (
        update(Account)
        .where(Account.id == row.c.account_id)
        .values(used=Account.used + row.c.dispatched, reserved=Account.reserved - row.c.amount)
    )
    used, released = row.c.dispatched, -row.c.amount
    return [charge, entry_from(row, kind, row.c.account_id, RESERVATION, TENANT, NOW, reserved=released, used=used)]


RESERVE = Guarded(_account_with_room(), _after_reserve)
DISPATCH = Guarded(_open_with_units(), _after_dispatch)
SETTLE = Guarded(_closing(State.SETTLED), lambda row: _after_close(row, EntryType.SETTLE))
EXPIRE = Guarded(_closing(State.EXPIRED), lambda row: _after_close(row, EntryType.EXPIRE))


def reserve(
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
        **asdict(keys),
        "now": now,
        "expires": expires_at,
    }
    return RESERVE.run(connection, parameters) is not None


def dispatch(
    connection: Connection,
    tenant_id: int,
    reservation_id: UUID,
    fence: int,
    count: int,
    keys: PeriodKeys,
    now: datetime,
    expires_at: datetime,
) -> bool:
    """Whether the units were moved to dispatched; the lease is renewed with them."""
    parameters = {
        "tenant": tenant_id,
        "reservation": reservation_id,
        "owner": fence,
        "count": count,
        **asdict(keys),
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


def find_reservation(connection: Connection, tenant_id: int, reservation_id: UUID) -> AnyRow | None:
    """The row (see `ReservationRow`), or None if the tenant has no such reservation."""
    table = ReservationRow.__table__
    statement = select(table).where(table.c.id == reservation_id, table.c.tenant_id == tenant_id)
    return connection.execute(statement).one_or_none()


def find_account_of(connection: Connection, account_id: int) -> AnyRow:
    """The row (see `Account`) that a reservation was taken from."""
    table = Account.__table__
    return connection.execute(select(table).where(table.c.id == account_id)).one()


def overdue_reservations(connection: Connection, now: datetime, limit: int) -> list[tuple[int, UUID]]:
    """(tenant, reservation) of open reservations whose lease has passed, of all tenants."""
    statement = (
        select(ReservationRow.tenant_id, ReservationRow.id)
        .where(ReservationRow.state == State.OPEN.value, ReservationRow.expires_at <= now)
        .limit(limit)
    )
    return [(row.tenant_id, row.id) for row in connection.execute(statement)]
