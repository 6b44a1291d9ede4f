"""An uploaded file, read as a table with care: one sentence for each way in which it can be wrong.

pandas alone would rename a repeated column, take surplus values for an index and fill up short rows without a word.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.errors import MediaTypeError, TooLargeError
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
UNPACKED_TIMES = 20
"""A Parquet file may unpack to this many times the largest upload; more is a bomb."""


@dataclass(frozen=True, slots=True)
class TableLimits:
    """The largest table."""

    rows: int
    columns: int
    bytes: int


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
        _check_csv(path, limits)
        return pd.read_csv(
            path,
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
        raise DataError(f"The file cannot be read as CSV: {_one_line(error)}.") from error


def _check_csv(path: Path, limits: TableLimits) -> None:
    with path.open("rt", newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(_without_nul(file), strict=True)
        header = next(lines, None)
        if header is None or not any(name.strip() for name in header):
            raise DataError("The file is empty or has no header line; begin it with the names of the columns.")
        _check_names(header, limits.columns)
        rows = 0
        for row in lines:
            if not row:
                continue
            if len(row) != len(header):
                found = f"has {len(row)} values, but the header has {len(header)} names"
                raise DataError(f"Line {lines.line_num} {found}; mend that line.")
            rows += 1
            if rows > limits.rows:
                raise _too_many("rows", f"more than {limits.rows}", limits.rows)
    if rows == 0:
        raise DataError("The file has a header, but no rows; add them.")


def _without_nul(lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise DataError(f"Line {number} holds a NUL character, so the file is not CSV; send CSV or Parquet.")
        yield line


def _check_names(names: Sequence[str], most: int) -> None:
    if len(names) > most:
        raise _too_many("columns", str(len(names)), most)
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(f"The header is one name, '{names[0][:60]}'; separate the columns with commas.")
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise DataError(f"Column {position} has no name in the header; name every column.")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"The header has the column '{repeated[0][:60]}' twice; rename or drop one of them.")


def _read_parquet(path: Path, limits: TableLimits) -> pd.DataFrame:
    """What the file says of itself is checked before it is unpacked."""
    try:
        with pq.ParquetFile(path) as file:
            meta = file.metadata
            _check_names(file.schema_arrow.names, limits.columns)
            if meta.num_rows > limits.rows:
                raise _too_many("rows", str(meta.num_rows), limits.rows)
            most = limits.bytes * UNPACKED_TIMES
            packed = sum(meta.row_group(group).total_byte_size for group in range(meta.num_row_groups))
            fields = list(file.schema_arrow)
            _check_bytes(max(packed, meta.num_rows * sum(_width(field) for field in fields)), most)
        frame = _read_fields(path, fields, most).to_pandas()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DataError(f"The file cannot be read as Parquet: {_one_line(error)}.") from error
    if frame.empty:
        raise DataError("The file has columns, but no rows; add them.")
    assert isinstance(frame, pd.DataFrame)
    return frame


def _read_fields(path: Path, fields: Sequence[pa.Field], most: int) -> pa.Table:
    """Texts are read as a list of distinct ones first: one that stands in the file once may stand in all rows."""
    texts = [field.name for field in fields if not pa.types.is_dictionary(field.type) and _width(field) == 0]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read()
    _check_bytes(sum(_unpacked(chunk) for column in table.columns for chunk in column.chunks), most)
    for position, name in enumerate(table.column_names):
        column = table.column(position)
        if name in texts and pa.types.is_dictionary(column.type):
            table = table.set_column(position, name, column.cast(column.type.value_type))
    return table


def _width(field: pa.Field) -> int:
    """The bytes of one value, where all have as many; else 0."""
    if pa.types.is_nested(field.type):
        raise DataError(f"Column '{field.name}' holds lists or objects; give each value a column of its own.")
    try:
        return (int(field.type.bit_width) + 7) // 8
    except ValueError:
        return 0


def _unpacked(chunk: pa.Array) -> int:
    """The bytes that it takes when each row has its own value."""
    if not isinstance(chunk, pa.DictionaryArray):
        return int(chunk.nbytes)
    if not (pa.types.is_binary(chunk.type.value_type) or pa.types.is_string(chunk.type.value_type)):
        return int(chunk.nbytes)
    lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
    return int(pc.sum(lengths).as_py() or 0)


def _check_bytes(unpacked: int, most: int) -> None:
    if unpacked > most:
        raise _too_many("bytes when unpacked", str(unpacked), most)


def _too_many(what: str, found: str, limit: int) -> TooLargeError:
    return TooLargeError(f"the table has {found} {what}, but {limit} is the limit: send a sample of it")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:200]
