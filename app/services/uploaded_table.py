"""An uploaded file, read as a table with care: one sentence for each way in which it can be wrong.

pandas alone would rename a repeated column, take surplus values for an index and fill up short rows without a word.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from app.errors import MediaTypeError
from app.services.parquet_table import read_parquet
from app.services.table_limits import TableLimits, check_names, one_line, too_many
from models.codes import code_positions
from models.errors import DataError
from models.frames import MISSING_TEXTS

PARQUET_MAGIC = b"PAR1"
OTHER_MAGICS = {
    b"\x1f\x8b": "compressed with gzip",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"%PDF": "a PDF",
}
WIDE_ENCODINGS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


@dataclass(frozen=True, eq=False)
class UploadedTable:
    """The frame, and the ending of the file that it came in."""

    frame: pd.DataFrame
    ending: str


def read_table(path: Path, limits: TableLimits) -> UploadedTable:
    """The table in a file of CSV or Parquet; its first bytes, not its name, say which."""
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(PARQUET_MAGIC):
        return UploadedTable(_read_parquet(path, limits), ".parquet")
    for magic, what in OTHER_MAGICS.items():
        if head.startswith(magic):
            raise MediaTypeError(f"the file is {what}: send CSV or Parquet as it is")
    for mark, encoding in WIDE_ENCODINGS.items():
        if head.startswith(mark):
            raise DataError(f"The file is {encoding} text; save it as UTF-8.")
    return UploadedTable(_read_csv(path, limits), ".csv")


def _read_csv(path: Path, limits: TableLimits) -> pd.DataFrame:
    try:
        codes = _check_csv(path, limits)
        return pd.read_csv(
            path,
            dtype=dict.fromkeys(codes, str),
            low_memory=False,
            index_col=False,
            encoding="utf-8-sig",
            keep_default_na=False,
            na_values=MISSING_TEXTS,
        )
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise DataError(f"The file is not UTF-8 text: it holds the byte 0x{byte:02X}; save it as UTF-8.") from error
    except (ValueError, csv.Error) as error:
        raise DataError(f"The file cannot be read as CSV: {one_line(error)}.") from error


def _check_csv(path: Path, limits: TableLimits) -> list[str]:
    """The columns of codes, as in models/codes.py."""
    with path.open("rt", newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(_without_nul(file), strict=True)
        header = next(lines, None)
        if header is None or not any(name.strip() for name in header):
            raise DataError("The file is empty or has no header line; begin it with the names of the columns.")
        check_names(header, limits.columns)
        rows, codes = 0, set[int]()
        for row in lines:
            if not row:
                continue
            if len(row) != len(header):
                found = f"has {len(row)} values, but the header has {len(header)} names"
                raise DataError(f"Line {lines.line_num} {found}; mend that line.")
            rows, codes = rows + 1, codes | code_positions(row)
            if rows > limits.rows:
                raise too_many("rows", f"more than {limits.rows}", limits.rows)
    if rows == 0:
        raise DataError("The file has a header, but no rows; add them.")
    return [header[position] for position in codes]


def _without_nul(lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise DataError(f"Line {number} holds a NUL character, so the file is not CSV; send CSV or Parquet.")
        yield line


def _read_parquet(path: Path, limits: TableLimits) -> pd.DataFrame:
    frame = read_parquet(path, limits)
    if frame.empty:
        raise DataError("The file has columns, but no rows; add them.")
    return frame
