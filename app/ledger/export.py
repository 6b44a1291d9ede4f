"""The ledger as CSV, for auditors."""

import csv
from collections.abc import Iterator
from datetime import datetime
from io import StringIO

from app.db.engine import Database
from app.db.entries import page

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
)
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def ledger_csv(database: Database, tenant_id: int, ensemble_id: int) -> Iterator[str]:
    """The header, then a line for each entry, oldest first; read as it is consumed, whatever the size."""
    yield _line(COLUMNS)
    with database.reading() as connection:
        for entry in page(connection, tenant_id, ensemble_id):
            yield _line(tuple(_cell(entry[column]) for column in COLUMNS))


def _cell(value: object) -> str:
    """Numbers as they are; a text that a spreadsheet would run as a formula is disarmed."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return str(value)


def _line(cells: tuple[str, ...]) -> str:
    buffer = StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
