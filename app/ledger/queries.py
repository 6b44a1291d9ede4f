"""Queries on budgets (a tenant's limit on an ensemble), accounts (its counters in one period) and the ledger's entries.

Entries are appended and read; nothing else is done with them. What moves a counter is in steps.py.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    FromClause,
    Insert,
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
from app.db.ledger_tables import Account, Budget, EnsembleRow, EntryType, LedgerEntry, Period
from app.db.paging import PageOrder, RowPage, numbered_page
from app.db.tables import BIG_ID, AnyRow


def find_account(connection: Connection, tenant_id: int, ensemble_id: int, period_key: str) -> AnyRow | None:
    """The row (see `Account`) of one period, or None if nothing was reserved in it yet."""
    table = Account.__table__
    statement = select(table).where(
        table.c.tenant_id == tenant_id, table.c.ensemble_id == ensemble_id, table.c.period_key == period_key
    )
    return connection.execute(statement).one_or_none()


def open_account(
    connection: Connection,
    tenant_id: int,
    ensemble_id: int,
    period: str,
    period_key: str,
    query_limit: int,
    now: datetime,
) -> None:
    """Make the account of a period, unless it is there; the caller holds the budget's row."""
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
    )
    if made is not None:
        append_limit(connection, tenant_id, made.id, EntryType.OPEN, query_limit, now)


def change_limits(
    connection: Connection, tenant_id: int, ensemble_id: int, period: str, from_key: str, limit: int, now: datetime
) -> None:
    """Set the limit of the present period and of any that a faster clock has opened; the caller holds the budget's row.

    The ceiling never falls below what is promised: a lowered limit stops new reservations and breaks no old one.
    """
    chosen = (
        select(Account.id, Account.query_limit)
        .where(Account.tenant_id == tenant_id, Account.ensemble_id == ensemble_id)
        .where(Account.period == period, Account.period_key >= from_key)
        .with_for_update()
    )
    promised = Account.used + Account.reserved
    for account_id, before in connection.execute(chosen).all():
        connection.execute(
            update(Account)
            .where(Account.id == account_id)
            .values(query_limit=limit, ceiling=case((promised > limit, promised), else_=limit))
        )
        append_limit(connection, tenant_id, account_id, EntryType.LIMIT, limit - before, now)


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


class Step(StrEnum):
    """How much time one point of a usage series covers."""

    HOUR = "hour"
    DAY = "day"


def entry_from(
    source: FromClause,
    kind: EntryType,
    account_id: ColumnElement[int],
    reservation_id: BindParameter[UUID],
    tenant_id: BindParameter[int],
    at: BindParameter[datetime],
    reserved: ColumnElement[int] = ZERO,
    dispatched: ColumnElement[int] = ZERO,
    used: ColumnElement[int] = ZERO,
) -> Insert:
    """The INSERT of an entry for the row of `source`."""
    values: dict[str, ColumnElement[Any]] = {
        "tenant_id": tenant_id,
        "account_id": account_id,
        "reservation_id": reservation_id,
        "kind": literal(kind.value),
        "at": at,
        "query_limit": ZERO,
        "reserved": reserved,
        "dispatched": dispatched,
        "used": used,
    }
    return insert(LedgerEntry).from_select(list(values), select(*values.values()).select_from(source))


def append_limit(
    connection: Connection, tenant_id: int, account_id: int, kind: EntryType, query_limit: int, at: datetime
) -> None:
    """Record by how much an account's limit changed."""
    connection.execute(
        insert(LedgerEntry).values(
            tenant_id=tenant_id,
            account_id=account_id,
            kind=kind.value,
            at=at,
            query_limit=query_limit,
            reserved=0,
            dispatched=0,
            used=0,
        )
    )


def sums_by_account(connection: Connection) -> dict[int, AnyRow]:
    """account -> (account_id, query_limit, reserved, dispatched, used), each summed over its entries."""
    statement = select(
        LedgerEntry.account_id,
        func.sum(LedgerEntry.query_limit).label("query_limit"),
        func.sum(LedgerEntry.reserved).label("reserved"),
        func.sum(LedgerEntry.dispatched).label("dispatched"),
        func.sum(LedgerEntry.used).label("used"),
    ).group_by(LedgerEntry.account_id)
    return {row.account_id: row for row in connection.execute(statement)}


def entries_page(connection: Connection, tenant_id: int, ensemble_id: int, order: PageOrder) -> RowPage:
    """The tenant's entries for one ensemble, oldest first, with the names that a reader needs."""
    return numbered_page(connection, LedgerEntry.id, _named(tenant_id, ensemble_id), order)


def newest_entry(connection: Connection, tenant_id: int, ensemble_id: int) -> int:
    """The highest id of them; 0 without any."""
    entries = _named(tenant_id, ensemble_id).subquery()
    return int(connection.execute(select(func.coalesce(func.max(entries.c.id), 0))).scalar_one())


def entries_between(
    connection: Connection, tenant_id: int, ensemble_id: int, after: int, last: int, limit: int = 2000
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
    )
    statement: Select[*tuple[Any, ...]] = select(*columns)
    return (
        statement.join(Account, Account.id == LedgerEntry.account_id)
        .join(EnsembleRow, EnsembleRow.id == Account.ensemble_id)
        .where(LedgerEntry.tenant_id == tenant_id, Account.ensemble_id == ensemble_id)
    )


def dispatched_by_step(
    connection: Connection, tenant_id: int, ensemble_id: int, step: Step, since: datetime, until: datetime
) -> list[tuple[str, int]]:
    """(beginning of the step, in UTC; queries asked in it) for [since, until), oldest first."""
    hour = {Step.HOUR: ("%H", "HH24"), Step.DAY: ("00", "00")}[step]
    if connection.dialect.name == "sqlite":
        begin = func.strftime(f"%Y-%m-%d {hour[0]}:00:00", LedgerEntry.at)
    else:
        begin = func.to_char(func.timezone("UTC", LedgerEntry.at), f"YYYY-MM-DD {hour[1]}:00:00")
    steps = (
        select(begin.label("begin"), LedgerEntry.dispatched)
        .join(Account, Account.id == LedgerEntry.account_id)
        .where(LedgerEntry.tenant_id == tenant_id, Account.ensemble_id == ensemble_id)
        .where(LedgerEntry.kind == EntryType.DISPATCH.value, LedgerEntry.at >= since, LedgerEntry.at < until)
        .subquery()
    )
    statement = select(steps.c.begin, func.sum(steps.c.dispatched)).group_by(steps.c.begin).order_by(steps.c.begin)
    return [(begin, int(count)) for begin, count in connection.execute(statement)]
