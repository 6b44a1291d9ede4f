"""Queries on accounts: the counters of one budget in one period."""

from datetime import datetime

from sqlalchemy import Connection, case, select, update
from sqlalchemy.dialects import postgresql, sqlite

from app.db.entries import append_limit
from app.db.tables import Account, Kind
from app.db.types import AnyRow


def find(connection: Connection, tenant_id: int, ensemble_id: int, period_key: str) -> AnyRow | None:
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
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = (
        insert(Account)
        .values(
            tenant_id=tenant_id,
            ensemble_id=ensemble_id,
            period=period,
            period_key=period_key,
            query_limit=query_limit,
            ceiling=query_limit,
            used=0,
            reserved=0,
        )
        .on_conflict_do_nothing()
        .returning(Account.id)
    )
    made = connection.execute(statement).scalar_one_or_none()
    if made is not None:
        append_limit(connection, tenant_id, made, Kind.OPEN, query_limit, now)


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
        append_limit(connection, tenant_id, account_id, Kind.LIMIT, limit - before, now)
