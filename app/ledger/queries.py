"""Queries on budgets (a tenant's limit on an ensemble), accounts (its counters in one period), reservations, entries.

Entries are appended and read; nothing else is done with them. What moves a counter is in steps.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Row,
    RowMapping,
    Select,
    case,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute

from app.db.engine import insert_for, insert_or_ignore
from app.db.ledger_tables import Account, Budget, EnsembleRow, EntryType, LedgerEntry, Period, ReservationRow, State
from app.db.paging import PageOrder, RowPage, numbered_page
from app.db.tables import BIG_ID, AnyRow
from app.errors import ConflictError, NotFoundError
from app.ledger.balance import Balance, no_budget, period_end, period_key
from app.ledger.chain import ChainKey, Line, Link, Tip


def find_account(connection: Connection, tenant_id: int, ensemble_id: int, period_key: str) -> AnyRow | None:
    """The row (see `Account`) of one period, or None if nothing was reserved in it yet."""
    table = Account.__table__
    statement = select(table).where(
        table.c.tenant_id == tenant_id, table.c.ensemble_id == ensemble_id, table.c.period_key == period_key
    )
    return connection.execute(statement).one_or_none()


def open_account(
    connection: Connection,
    key: ChainKey,
    tenant_id: int,
    ensemble_id: int,
    period: str,
    period_key: str,
    query_limit: int,
    now: datetime,
) -> None:
    """Make the account of a period, unless it is there; the caller holds the budget's row."""
    before = accounts_of(connection, tenant_id, ensemble_id)
    made = insert_or_ignore(
        connection,
        Account,
        tenant_id=tenant_id,
        ensemble_id=ensemble_id,
        period=period,
        period_key=period_key,
        query_limit=query_limit,
        ceiling=query_limit,
        used=0,
        reserved=0,
        chain_head=b"",
        chain_key=key.id,
    )
    if made is None:
        return
    append_entry(connection, key, Line(tenant_id, made.id, EntryType.OPEN, now, query_limit=query_limit))
    budget = (Budget.tenant_id == tenant_id) & (Budget.ensemble_id == ensemble_id)
    seal = connection.execute(select(Budget.accounts_seal).where(budget)).scalar_one()
    # A seal that does not hold is left as it is, or an account that was taken away would be forgotten.
    if seal == key.seal(before) or (seal is None and not before):
        sealed = key.seal(accounts_of(connection, tenant_id, ensemble_id))
        connection.execute(update(Budget).where(budget).values(accounts_seal=sealed))


def change_limits(
    connection: Connection,
    key: ChainKey,
    tenant_id: int,
    ensemble_id: int,
    period: str,
    from_key: str,
    limit: int,
    now: datetime,
) -> None:
    """Set the limit of the present period and of any that a faster clock has opened; the caller holds the budget's row.

    The ceiling never falls below what is promised: a lowered limit stops new reservations and breaks no old one.
    """
    chosen = (
        select(Account.id, Account.query_limit)
        .where(Account.tenant_id == tenant_id, Account.ensemble_id == ensemble_id)
        .where(Account.period == period, Account.period_key >= from_key)
        .order_by(Account.id)
        .with_for_update()
    )
    promised = Account.used + Account.reserved
    for account_id, before in connection.execute(chosen).all():
        connection.execute(
            update(Account)
            .where(Account.id == account_id)
            .values(query_limit=limit, ceiling=case((promised > limit, promised), else_=limit))
        )
        append_entry(connection, key, Line(tenant_id, account_id, EntryType.LIMIT, now, query_limit=limit - before))


def find_budget(connection: Connection, tenant_id: int, ensemble_id: int) -> AnyRow | None:
    """The row (see `Budget`), or None."""
    table = Budget.__table__
    statement = select(table).where(table.c.tenant_id == tenant_id, table.c.ensemble_id == ensemble_id)
    return connection.execute(statement).one_or_none()


def budgets_page(connection: Connection, tenant_id: int, order: PageOrder) -> RowPage:
    """ensemble_id and name of the tenant's ensembles that have a budget, in the order of their ids."""
    statement = (
        select(Budget.ensemble_id, EnsembleRow.name)
        .join(EnsembleRow, EnsembleRow.id == Budget.ensemble_id)
        .where(Budget.tenant_id == tenant_id, EnsembleRow.tenant_id == tenant_id)
    )
    return numbered_page(connection, Budget.ensemble_id, statement, order)


def lock_budget(connection: Connection, tenant_id: int, ensemble_id: int) -> AnyRow | None:
    """The row, held until the transaction ends, so that a limit cannot change while its account is being made."""
    table = Budget.__table__
    statement = select(table).where(table.c.tenant_id == tenant_id, table.c.ensemble_id == ensemble_id)
    return connection.execute(statement.with_for_update()).one_or_none()


def find_balance(connection: Connection, tenant_id: int, ensemble_id: int, now: datetime) -> Balance:
    """The budget as it stands in the period of `now`; UnknownBudgetError if there is none."""
    budget = find_budget(connection, tenant_id, ensemble_id)
    if budget is None:
        raise no_budget(tenant_id, ensemble_id)
    period = Period(budget.period)
    key = period_key(period, now)
    account = find_account(connection, tenant_id, ensemble_id, key)
    used, reserved = (account.used, account.reserved) if account is not None else (0, 0)
    return Balance(period, key, period_end(period, now), budget.query_limit, used, reserved)


def open_period(connection: Connection, chain_key: ChainKey, tenant_id: int, ensemble_id: int, now: datetime) -> None:
    """Make the account of the budget's present period, unless it is there; the budget's row is held."""
    budget = lock_budget(connection, tenant_id, ensemble_id)
    if budget is None:
        raise no_budget(tenant_id, ensemble_id)
    key = period_key(Period(budget.period), now)
    open_account(connection, chain_key, tenant_id, ensemble_id, budget.period, key, budget.query_limit, now)


def put_budget(
    connection: Connection, tenant_id: int, ensemble_id: int, period: Period, query_limit: int, now: datetime
) -> None:
    """Make or change the budget; its row is held until the transaction ends."""
    changed = {"period": period.value, "query_limit": query_limit, "updated_at": now}
    connection.execute(
        insert_for(connection, Budget)
        .values({"tenant_id": tenant_id, "ensemble_id": ensemble_id} | changed)
        .on_conflict_do_update(index_elements=["tenant_id", "ensemble_id"], set_=changed)
    )


ZERO: ColumnElement[int] = literal(0, BIG_ID)


def entry_from(source: FromClause, kind: EntryType, given: Mapping[str, ColumnElement[Any]]) -> Insert:
    """The INSERT of an entry for the row of `source`; counters that are not given are 0."""
    counters = dict.fromkeys(("query_limit", "reserved", "dispatched", "used"), ZERO)
    values: dict[str, ColumnElement[Any]] = {"kind": literal(kind.value), **counters, **given}
    return insert(LedgerEntry).from_select(list(values), select(*values.values()).select_from(source))


def append_entry(connection: Connection, key: ChainKey, line: Line) -> None:
    """Write an entry that needs no guard, and move the chain on; the account is held until the transaction ends."""
    held = select(Account.chain_number, Account.chain_head).where(Account.id == line.account_id).with_for_update()
    number, head = connection.execute(held).one()
    write_link(connection, line, key.link(Tip(line.account_id, number, head or b""), line))


def write_link(connection: Connection, line: Line, link: Link) -> None:
    """The entry at its place, and the head behind it; the caller holds the account."""
    connection.execute(insert(LedgerEntry).values(**asdict(line), number=link.number, mac=link.mac))
    moved = update(Account).where(Account.id == line.account_id)
    connection.execute(moved.values(chain_number=link.number, chain_head=link.head))


def accounts_of(connection: Connection, tenant_id: int, ensemble_id: int) -> Sequence[AnyRow]:
    """(id, tenant_id, ensemble_id, period, period_key) of each of a budget's accounts, by id: what its seal covers."""
    columns = (Account.id, Account.tenant_id, Account.ensemble_id, Account.period, Account.period_key)
    statement = select(*columns).where(Account.tenant_id == tenant_id, Account.ensemble_id == ensemble_id)
    return connection.execute(statement.order_by(Account.id)).all()


def reversed_of(connection: Connection, tenant_id: int, entry_id: int) -> int:
    """The queries of all corrections that take an entry back."""
    corrections = select(func.coalesce(func.sum(LedgerEntry.used), 0)).where(
        LedgerEntry.tenant_id == tenant_id,
        LedgerEntry.kind == EntryType.CORRECT.value,
        LedgerEntry.reverses == entry_id,
    )
    return int(connection.execute(corrections).scalar_one())


def find_entry(connection: Connection, tenant_id: int, ensemble_id: int, entry_id: int) -> RowMapping | None:
    """One entry of a budget, or None if it has no such entry."""
    statement = _named(tenant_id, ensemble_id).where(LedgerEntry.id == entry_id)
    return connection.execute(statement).mappings().one_or_none()


def entries_page(connection: Connection, tenant_id: int, ensemble_id: int, order: PageOrder) -> RowPage:
    """The tenant's entries for one ensemble, oldest first, with the names that a reader needs."""
    return numbered_page(connection, LedgerEntry.id, _named(tenant_id, ensemble_id), order)


def newest_entry(connection: Connection, tenant_id: int, ensemble_id: int) -> int:
    """The highest id of them; 0 without any."""
    entries = _named(tenant_id, ensemble_id).subquery()
    return int(connection.execute(select(func.coalesce(func.max(entries.c.id), 0))).scalar_one())


def entries_between(
    connection: Connection, tenant_id: int, ensemble_id: int, after: int, last: int, limit: int = 500
) -> Sequence[RowMapping]:
    """The same, oldest first, behind the entry `after` and up to `last`; some at a time."""
    statement = _named(tenant_id, ensemble_id).where(LedgerEntry.id > after, LedgerEntry.id <= last)
    return connection.execute(statement.order_by(LedgerEntry.id).limit(limit)).mappings().all()


def newest_entries(
    connection: Connection,
    tenant_id: int,
    ensemble_id: int,
    before: int | None,
    limit: int,
    kind: EntryType | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[RowMapping]:
    """The same, newest first, for people: from the entry before `before` on, of one kind, in [since, until)."""
    statement = _named(tenant_id, ensemble_id).order_by(LedgerEntry.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(LedgerEntry.id < before)
    if kind is not None:
        statement = statement.where(LedgerEntry.kind == kind.value)
    if since is not None:
        statement = statement.where(LedgerEntry.at >= since)
    if until is not None:
        statement = statement.where(LedgerEntry.at < until)
    return list(connection.execute(statement).mappings())


def _named(tenant_id: int, ensemble_id: int) -> Select[*tuple[Any, ...]]:
    columns: tuple[ColumnElement[Any] | InstrumentedAttribute[Any], ...] = (
        LedgerEntry.id,
        LedgerEntry.at,
        EnsembleRow.name.label("ensemble"),
        Account.period_key.label("period"),
        LedgerEntry.kind,
        LedgerEntry.reservation_id.label("reservation"),
        LedgerEntry.query_limit,
        LedgerEntry.reserved,
        LedgerEntry.dispatched,
        LedgerEntry.used,
        LedgerEntry.reason,
        LedgerEntry.made_by,
        LedgerEntry.reverses,
        LedgerEntry.number,
        LedgerEntry.mac,
    )
    statement: Select[*tuple[Any, ...]] = select(*columns)
    return (
        statement.join(Account, Account.id == LedgerEntry.account_id)
        .join(EnsembleRow, EnsembleRow.id == Account.ensemble_id)
        .where(LedgerEntry.tenant_id == tenant_id, Account.ensemble_id == ensemble_id)
    )


def find_reservation(connection: Connection, tenant_id: int, reservation_id: UUID) -> AnyRow | None:
    """The row (see `ReservationRow`), or None if the tenant has no such reservation."""
    table = ReservationRow.__table__
    statement = select(table).where(table.c.id == reservation_id, table.c.tenant_id == tenant_id)
    return connection.execute(statement).one_or_none()


def find_account_of(connection: Connection, account_id: int) -> AnyRow:
    """The row (see `Account`) that a reservation was taken from."""
    table = Account.__table__
    return connection.execute(select(table).where(table.c.id == account_id)).one()


def open_beside(connection: Connection, reservation_id: UUID) -> list[Row[UUID, int, int]]:
    """(id, tenant_id, ensemble_id) of the open reservations that go beside a tenant's."""
    statement = (
        select(ReservationRow.id, ReservationRow.tenant_id, Account.ensemble_id)
        .join(Account, Account.id == ReservationRow.account_id)
        .where(ReservationRow.beside == reservation_id, ReservationRow.state == State.OPEN.value)
    )
    return list(connection.execute(statement).all())


def overdue_reservations(connection: Connection, now: datetime, limit: int) -> list[tuple[int, UUID]]:
    """(tenant, reservation) of open reservations whose lease has passed, of all tenants."""
    statement = (
        select(ReservationRow.tenant_id, ReservationRow.id)
        .where(ReservationRow.state == State.OPEN.value, ReservationRow.expires_at <= now)
        .limit(limit)
    )
    return [(row.tenant_id, row.id) for row in connection.execute(statement)]


def check_period(connection: Connection, tenant_id: int, ensemble_id: int, period: Period, now: datetime) -> None:
    """The counters of another kind of period know nothing of what is used in this one."""
    balance = find_balance(connection, tenant_id, ensemble_id, now)
    if period is balance.period or not (balance.used or balance.reserved):
        return
    account = find_account(connection, tenant_id, ensemble_id, period_key(period, now))
    counted = 0 if account is None else account.used + account.reserved
    present = f"{balance.used} queries are used and {balance.reserved} reserved in the period {balance.period_key!r}"
    fact = f"the period {period_key(period, now)!r} would count from {counted}"
    raise ConflictError(f"{present}, {fact}: to allow it, send restart: true; else keep the period {balance.period}")


def check_reversal(connection: Connection, tenant_id: int, ensemble_id: int, count: int, entry_id: int) -> None:
    """ConflictError unless the entry added queries that are not all taken back yet."""
    entry = find_entry(connection, tenant_id, ensemble_id, entry_id)
    if entry is None:
        raise NotFoundError(f"this budget has no entry {entry_id}: see its ledger")
    left = entry["used"] + reversed_of(connection, tenant_id, entry_id)
    if left * count >= 0 or abs(count) > abs(left):
        fact = f"entry {entry_id} changed what is used by {entry['used']}, {left} of which are not reversed"
        raise ConflictError(f"{fact}: a correction of {count} does not reverse it")
