"""For auditors: proof that the ledger's sums equal its rows, the ledger as CSV, and how a budget was used over time."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from itertools import accumulate

from sqlalchemy import Connection, case, func, select

from app.db.engine import Database
from app.db.ledger_tables import Account, EntryType, LedgerEntry, ReservationRow, State
from app.db.tables import AnyRow
from app.ledger.chain import ChainKey
from app.ledger.chain_check import ChainEnd, check_chains
from app.ledger.queries import entries_between, newest_entry


@dataclass(frozen=True, slots=True)
class Audit:
    """One sentence for each contradiction, over all tenants, none if the books are right; and where each chain ends."""

    contradictions: list[str]
    chains: list[ChainEnd]


def audit_ledger(database: Database, key: ChainKey, noted: Sequence[ChainEnd] = ()) -> Audit:
    """The sums and the chains, of one state of the database; `noted`: ends of chains that an earlier audit gave."""
    with database.reading(long=True) as connection:
        broken, ends = check_chains(connection, key, noted)
        return Audit([*_accounts(connection), *_reservations(connection), *_orphans(connection), *broken], ends)


def check_ledger(database: Database, key: ChainKey) -> list[str]:
    """The contradictions alone."""
    return audit_ledger(database, key).contradictions


def _accounts(connection: Connection) -> Iterator[str]:
    """Each account equals the sum of its entries, and the sum of its reservations."""
    entries = sums_by_account(connection)
    held = _held_by_account(connection)
    for account in connection.execute(select(Account.__table__)):
        where = f"account {account.id} of tenant {account.tenant_id} ({account.period_key})"
        booked, promised = entries.get(account.id), held.get(account.id)
        for counter in ("query_limit", "reserved", "used"):
            yield from _differs(where, counter, getattr(account, counter), getattr(booked, counter, 0), "entries")
        for counter in ("reserved", "used"):
            corrected = getattr(booked, "corrected", 0) if counter == "used" else 0
            summed = getattr(promised, counter, 0) + corrected
            yield from _differs(where, counter, getattr(account, counter), summed, "reservations and corrections")
        if account.used + account.reserved > account.ceiling:
            yield f"{where} has {account.used} used and {account.reserved} reserved, over its ceiling {account.ceiling}"


def sums_by_account(connection: Connection) -> dict[int, AnyRow]:
    """account -> (account_id, query_limit, reserved, dispatched, used, corrected), each summed over its entries."""
    statement = select(
        LedgerEntry.account_id,
        func.sum(LedgerEntry.query_limit).label("query_limit"),
        func.sum(LedgerEntry.reserved).label("reserved"),
        func.sum(LedgerEntry.dispatched).label("dispatched"),
        func.sum(LedgerEntry.used).label("used"),
        func.sum(case((LedgerEntry.kind == EntryType.CORRECT.value, LedgerEntry.used), else_=0)).label("corrected"),
    ).group_by(LedgerEntry.account_id)
    return {row.account_id: row for row in connection.execute(statement)}


def _held_by_account(connection: Connection) -> dict[int, AnyRow]:
    """account -> (account_id, reserved by open reservations, used by closed ones)."""
    is_open = ReservationRow.state == State.OPEN.value
    statement = select(
        ReservationRow.account_id,
        func.coalesce(func.sum(ReservationRow.amount).filter(is_open), 0).label("reserved"),
        func.coalesce(func.sum(ReservationRow.dispatched).filter(~is_open), 0).label("used"),
    ).group_by(ReservationRow.account_id)
    return {row.account_id: row for row in connection.execute(statement)}


def _reservations(connection: Connection) -> Iterator[str]:
    """Each reservation was made once, closed at most once, and its dispatches add up."""
    reserving = LedgerEntry.kind == EntryType.RESERVE.value
    closing = LedgerEntry.kind.in_((EntryType.SETTLE.value, EntryType.EXPIRE.value))
    statement = (
        select(
            ReservationRow.id,
            ReservationRow.tenant_id,
            ReservationRow.amount,
            ReservationRow.dispatched,
            ReservationRow.state,
            func.coalesce(func.sum(LedgerEntry.dispatched), 0).label("booked"),
            func.count().filter(closing).label("closings"),
            func.coalesce(func.sum(LedgerEntry.reserved).filter(reserving), 0).label("granted"),
        )
        .outerjoin(LedgerEntry, LedgerEntry.reservation_id == ReservationRow.id)
        .group_by(ReservationRow.id)
    )
    for row in connection.execute(statement):
        where = f"reservation {row.id} of tenant {row.tenant_id}"
        yield from _differs(where, "amount", row.amount, row.granted, "entries")
        yield from _differs(where, "dispatched", row.dispatched, row.booked, "entries")
        yield from _differs(where, "closed", int(row.state != State.OPEN.value), row.closings, "entries")


def _orphans(connection: Connection) -> Iterator[str]:
    """Each entry names an account of its tenant, and a reservation of that account if it names one."""
    statement = (
        select(LedgerEntry.id, LedgerEntry.tenant_id)
        .outerjoin(Account, (Account.id == LedgerEntry.account_id) & (Account.tenant_id == LedgerEntry.tenant_id))
        .outerjoin(
            ReservationRow,
            (ReservationRow.id == LedgerEntry.reservation_id) & (ReservationRow.account_id == LedgerEntry.account_id),
        )
        .where(Account.id.is_(None) | (LedgerEntry.reservation_id.is_not(None) & ReservationRow.id.is_(None)))
    )
    for entry_id, tenant_id in connection.execute(statement):
        yield f"entry {entry_id} of tenant {tenant_id} names an account or a reservation that is not there"


def _differs(where: str, counter: str, stored: int, summed: int, source: str) -> Iterator[str]:
    if stored != summed:
        yield f"{where} says {counter} {stored}, its {source} sum to {summed}"


COLUMNS = (
    "id",
    "at",
    "ensemble",
    "period",
    "kind",
    "reservation",
    "query_limit",
    "reserved",
    "dispatched",
    "used",
    "reason",
    "made_by",
    "reverses",
    "number",
    "mac",
)
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def ledger_csv(database: Database, tenant_id: int, ensemble_id: int) -> Iterator[str]:
    """Lines of CSV, some hundred at a time: the header, then one for each entry that is there now, oldest first.

    Whoever reads slowly holds no connection meanwhile: each part is a query of its own.
    """
    yield _line(COLUMNS)
    newest = database.read(newest_entry, tenant_id, ensemble_id)
    last = 0
    while entries := database.read(entries_between, tenant_id, ensemble_id, last, newest):
        yield "".join(_line(tuple(_cell(entry[column]) for column in COLUMNS)) for entry in entries)
        last = entries[-1]["id"]


def _cell(value: object) -> str:
    """Numbers as they are; a text that a spreadsheet would run as a formula is disarmed."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return str(value)


def _line(cells: tuple[str, ...]) -> str:
    buffer = StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


class Step(StrEnum):
    """How much time one point of a usage series covers."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class UsagePoint:
    """Queries asked in the step that begins at `at`, and in all since the series began; what was corrected in it."""

    at: datetime
    dispatched: int
    total: int
    corrected: int = 0


def usage_series(
    database: Database, tenant_id: int, ensemble_id: int, step: Step, since: datetime, until: datetime
) -> list[UsagePoint]:
    """The queries that were asked or corrected in [since, until), oldest first: a point for each step that had any."""
    with database.reading() as connection:
        steps = queries_by_step(connection, tenant_id, ensemble_id, step, since, until)
    totals = accumulate(count for _, count, _ in steps)
    return [
        UsagePoint(datetime.fromisoformat(begin).replace(tzinfo=UTC), count, total, corrected)
        for (begin, count, corrected), total in zip(steps, totals, strict=True)
    ]


def queries_by_step(
    connection: Connection, tenant_id: int, ensemble_id: int, step: Step, since: datetime, until: datetime
) -> list[tuple[str, int, int]]:
    """(beginning of the step, in UTC; queries asked in it; corrected in it) for [since, until), oldest first."""
    hour = {Step.HOUR: ("%H", "HH24"), Step.DAY: ("00", "00")}[step]
    if connection.dialect.name == "sqlite":
        begin = func.strftime(f"%Y-%m-%d {hour[0]}:00:00", LedgerEntry.at)
    else:
        begin = func.to_char(func.timezone("UTC", LedgerEntry.at), f"YYYY-MM-DD {hour[1]}:00:00")
    corrects = LedgerEntry.kind == EntryType.CORRECT.value
    steps = (
        select(
            begin.label("begin"), LedgerEntry.dispatched, case((corrects, LedgerEntry.used), else_=0).label("corrected")
        )
        .join(Account, Account.id == LedgerEntry.account_id)
        .where(LedgerEntry.tenant_id == tenant_id, Account.ensemble_id == ensemble_id)
        .where(corrects | (LedgerEntry.kind == EntryType.DISPATCH.value))
        .where(LedgerEntry.at >= since, LedgerEntry.at < until)
        .subquery()
    )
    sums = func.sum(steps.c.dispatched), func.sum(steps.c.corrected)
    statement = select(steps.c.begin, *sums).group_by(steps.c.begin).order_by(steps.c.begin)
    return [(begin, int(asked), int(corrected)) for begin, asked, corrected in connection.execute(statement)]
