"""A Parquet file, read as a table. What it says of itself may be a lie: it is unpacked in a child process first.

That process has little memory and counts what it finds; only a file that passes there is unpacked here.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import TooLargeError
from app.services.table_limits import TableLimits, check_names, one_line, too_many
from models.errors import DataError
from models.frames import with_floats

BATCH_ROWS = 8192
TRIAL_BYTES = 2 * 2**30
"""Memory of the child process, besides the file itself; an honest file needs a small part of it."""
TRIAL_SECONDS = 300.0
TRIAL_REFUSES = 3
"""The child's exit code for a file that is too large; of any other fault the parent finds the words itself."""
# Allocators that reserve room they may never use would reach the limit by that alone.
TRIAL_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}


def read_parquet(path: Path, limits: TableLimits) -> pd.DataFrame:
    """The table; DataError for a file that cannot be read, TooLargeError for one that unpacks to too much."""
    try:
        _check_footer(path, limits)
        _try_elsewhere(path, limits)
        with pq.ParquetFile(path) as file:
            frame = pa.Table.from_batches(unpack(file, limits), file.schema_arrow).to_pandas()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DataError(f"The file cannot be read as Parquet: {one_line(error)}.") from error
    assert isinstance(frame, pd.DataFrame)
    return with_floats(frame)


def unpack(file: pq.ParquetFile, limits: TableLimits) -> Iterator[pa.RecordBatch]:
    """The rows, a few at a time; TooLargeError as soon as there are more of them, or of their bytes, than allowed."""
    rows = unpacked = 0
    for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
        rows, unpacked = rows + batch.num_rows, unpacked + batch.nbytes
        if rows > limits.rows:
            raise too_many("rows", f"more than {limits.rows}", limits.rows)
        if unpacked > limits.unpacked_bytes:
            raise too_many("bytes when unpacked", f"more than {limits.unpacked_bytes}", limits.unpacked_bytes)
        yield batch


def _check_footer(path: Path, limits: TableLimits) -> None:
    """What the file says of itself: the honest one that is too large is refused without being unpacked."""
    with pq.ParquetFile(path) as file:
        meta, schema = file.metadata, file.schema_arrow
    check_names(schema.names, limits.columns)
    if meta.num_rows > limits.rows:
        raise too_many("rows", str(meta.num_rows), limits.rows)
    told = sum(meta.row_group(group).total_byte_size for group in range(meta.num_row_groups))
    unpacked = max(told, meta.num_rows * sum(_width(field) for field in schema))
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


def _try_elsewhere(path: Path, limits: TableLimits) -> None:
    """Unpack the file in a child process that has its own limit of memory."""
    memory = TRIAL_BYTES + path.stat().st_size
    arguments = [str(number) for number in (memory, limits.rows, limits.columns, limits.bytes)]
    command = [sys.executable, "-m", "app.services.parquet_trial", str(path), *arguments]
    try:
        ended = subprocess.run(
            command, env=os.environ | TRIAL_ENVIRONMENT, timeout=TRIAL_SECONDS, stderr=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise TooLargeError(f"unpacking the table took more than {TRIAL_SECONDS:g} s: send a sample of it") from None
    if ended.returncode == TRIAL_REFUSES:
        most = f"{limits.unpacked_bytes} bytes when unpacked, or takes more than {memory} bytes of memory on the way"
        raise TooLargeError(f"the table has more than {most}: send a sample of it")
    if ended.returncode != 0:
        raise DataError("The file cannot be read as Parquet: unpacking it broke off; write it anew, or as CSV.")
