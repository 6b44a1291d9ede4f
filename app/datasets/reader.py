"""Tables from files: CSV and Parquet, read strictly, for uploads, the command line and the trainer.

pandas alone would rename a repeated column, take surplus values for an index and fill up short rows without a word.
Here each of these, and whatever else makes a file unreadable, is one sentence; with a `name` it says which file. A file
is what its first bytes say it is, whatever it is called, but for `.csv.gz`, which is unpacked.

Uploads come with `TableLimits`; a file of the operator's own is read without. What a Parquet file says of itself may be
a lie, so what it unpacks to is counted as well, and that happens where little memory is at hand (description.py).
"""

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import MediaTypeError, TooLargeError
from models.data.frames import MISSING_TEXTS, code_positions, with_floats
from models.errors import DataError

UNPACKED_TIMES = 20
"""A Parquet file may unpack to this many times the largest upload; more is a bomb."""
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
PACKED_CSV = ".csv.gz"
BATCH_ROWS = 8192
VALUE_BYTES = 8


@dataclass(frozen=True, slots=True)
class TableLimits:
    """The largest table; bytes: as it is sent."""

    rows: int
    columns: int
    bytes: int

    @property
    def values(self) -> int:
        """Rows times columns: as many as there are numbers in the largest upload, whatever a file packs them into."""
        return self.bytes // VALUE_BYTES

    def check_values(self, rows: int, columns: int) -> None:
        """TooLargeError for a table with more."""
        if rows * columns > self.values:
            raise too_many("values", f"{rows} rows of {columns}", self.values)

    @property
    def unpacked_bytes(self) -> int:
        return self.bytes * UNPACKED_TIMES


@dataclass(frozen=True, eq=False)
class Table:
    """The frame, and the ending that its file should have."""

    frame: pd.DataFrame
    ending: str


def read_table(path: Path, limits: TableLimits | None = None, name: str | None = None, as_text: bool = False) -> Table:
    """The table in a file.

    DataError says what is wrong with it, TooLargeError what is too much, MediaTypeError what else it is.
    as_text leaves the values of a CSV as they are written; empty ones are missing all the same.
    """
    head = _head(path)
    if is_parquet(path):
        return Table(read_parquet(path, limits, name), ".parquet")
    if not path.name.lower().endswith(PACKED_CSV):
        for magic, what in OTHER_MAGICS.items():
            if head.startswith(magic):
                raise MediaTypeError(f"the file{_quoted(name)} is {what}: send CSV or Parquet as it is")
        for mark, encoding in WIDE_ENCODINGS.items():
            if head.startswith(mark):
                raise DataError(f"The file{_quoted(name)} is {encoding} text; save it as UTF-8.")
    return Table(_read_csv(path, limits, name, as_text), ".csv")


def is_parquet(path: Path) -> bool:
    """By its first bytes."""
    return _head(path).startswith(PARQUET_MAGIC)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)


def check_names(names: Sequence[str], most: int | None = None, file: str | None = None) -> None:
    """DataError for columns that cannot be told apart, TooLargeError for more than `most`."""
    of = "" if file is None else f" of '{file}'"
    if most is not None and len(names) > most:
        raise too_many("columns", str(len(names)), most)
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(f"The header{of} is one name, '{names[0][:60]}'; separate the columns with commas.")
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise DataError(f"Column {position}{of} has no name in the header; name every column.")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"The header{of} has the column '{repeated[0][:60]}' twice; rename or drop one of them.")


def too_many(what: str, found: str, limit: int) -> TooLargeError:
    return TooLargeError(f"the table has {found} {what}, but {limit} is the limit: send a sample of it")


def _quoted(name: str | None) -> str:
    return "" if name is None else f" '{name}'"


def _one_line(error: Exception) -> str:
    """What a library says of a file, short enough for an answer."""
    return " ".join(str(error).split()).rstrip(".")[:200]


def _read_csv(path: Path, limits: TableLimits | None, name: str | None, as_text: bool) -> pd.DataFrame:
    try:
        codes = _check_csv(path, limits, name)
        return pd.read_csv(
            path,
            dtype=str if as_text else dict.fromkeys(codes, str),
            low_memory=False,
            index_col=False,
            encoding="utf-8-sig",
            keep_default_na=False,
            na_values=MISSING_TEXTS,
        )
    except UnicodeDecodeError as error:
        found = f"it holds the byte 0x{error.object[error.start]:02X}; save it as UTF-8"
        raise DataError(f"The file{_quoted(name)} is not UTF-8 text: {found}.") from error
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise DataError(f"The file{_quoted(name)} cannot be read as CSV: {_one_line(error)}.") from error


def _check_csv(path: Path, limits: TableLimits | None, name: str | None) -> list[str]:
    """The columns that hold codes such as 007, which stay texts (`models.data.frames`)."""
    rows, codes = 0, set[int]()
    with _open_csv(path) as file:
        lines = csv.reader(_without_nul(file), strict=True)
        filled = (row for row in lines if len(row) > 1 or "".join(row).strip())
        header = next(filled, [])
        if not any(column.strip() for column in header):
            fact = f"The file{_quoted(name)} is empty or has no header line"
            raise DataError(f"{fact}; begin it with the names of the columns.")
        check_names(header, None if limits is None else limits.columns, name)
        for row in filled:
            if len(row) != len(header):
                line = f"Line {lines.line_num}" + ("" if name is None else f" of '{name}'")
                found = f"has {len(row)} values, but the header has {len(header)} names"
                raise DataError(f"{line} {found}; correct that line.")
            rows, codes = rows + 1, codes | code_positions(row)
            if limits is not None and rows > limits.rows:
                raise too_many("rows", f"more than {limits.rows}", limits.rows)
    if limits is not None:
        limits.check_values(rows, len(header))
    if rows == 0:
        raise DataError(f"The file{_quoted(name)} has a header, but no rows; add them.")
    return [header[position] for position in codes]


def _open_csv(path: Path) -> IO[str]:
    if path.name.lower().endswith(PACKED_CSV):
        return gzip.open(path, "rt", newline="", encoding="utf-8-sig")
    return path.open("rt", newline="", encoding="utf-8-sig")


def _without_nul(lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise DataError(f"Line {number} holds a NUL character, so the file is not CSV; send CSV or Parquet.")
        yield line


def read_parquet(path: Path, limits: TableLimits | None = None, name: str | None = None) -> pd.DataFrame:
    """The table; DataError for a file that cannot be read, TooLargeError for one that unpacks to too much."""
    try:
        _check_footer(path, limits, name)
        with pq.ParquetFile(path) as file:
            frame = pa.Table.from_batches(unpack(file, limits), file.schema_arrow).to_pandas()
    except MemoryError:  # Arrow's own is one of its exceptions too; it says nothing of the file.
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DataError(f"The file{_quoted(name)} cannot be read as Parquet: {_one_line(error)}.") from error
    assert isinstance(frame, pd.DataFrame)
    if frame.empty:
        raise DataError(f"The file{_quoted(name)} has columns, but no rows; add them.")
    return with_floats(frame)


def unpack(file: pq.ParquetFile, limits: TableLimits | None) -> Iterator[pa.RecordBatch]:
    """The rows, a few at a time; TooLargeError as soon as there are more of them, or of their bytes, than allowed."""
    rows = unpacked = 0
    for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
        rows, unpacked = rows + batch.num_rows, unpacked + batch.nbytes
        if limits is not None:
            if rows > limits.rows:
                raise too_many("rows", f"more than {limits.rows}", limits.rows)
            limits.check_values(rows, batch.num_columns)
            if unpacked > limits.unpacked_bytes:
                raise too_many("bytes when unpacked", f"more than {limits.unpacked_bytes}", limits.unpacked_bytes)
        yield batch


def _check_footer(path: Path, limits: TableLimits | None, name: str | None) -> None:
    """What the file says of itself: the honest one that is too large is refused without being unpacked."""
    with pq.ParquetFile(path) as file:
        meta, schema = file.metadata, file.schema_arrow
    check_names(schema.names, None if limits is None else limits.columns, name)
    widths = sum(_width(field) for field in schema)
    if limits is None:
        return
    if meta.num_rows > limits.rows:
        raise too_many("rows", str(meta.num_rows), limits.rows)
    limits.check_values(meta.num_rows, meta.num_columns)
    told = sum(meta.row_group(group).total_byte_size for group in range(meta.num_row_groups))
    unpacked = max(told, meta.num_rows * widths)
    if unpacked > limits.unpacked_bytes:
        raise too_many("bytes when unpacked", str(unpacked), limits.unpacked_bytes)


def _width(field: pa.Field) -> int:
    """The bytes of one value, where all have as many; else 0."""
    if pa.types.is_nested(field.type):
        raise DataError(f"Column '{field.name}' holds lists or objects; give each value a column of its own.")
    try:
        return (int(field.type.bit_width) + 7) // 8
    except ValueError:
        return 0
