"""Unpacks a Parquet file in a process of its own and keeps nothing: `python -m app.datasets.parquet_trial ...`.

Run by reader.py. The exit code tells whether the file is too large; the memory has a limit of its own.
"""

import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from app.datasets.reader import TRIAL_REFUSES, TableLimits, unpack
from app.errors import TooLargeError


def main(arguments: Sequence[str]) -> int:
    """PATH MEMORY ROWS COLUMNS BYTES -> the exit code."""
    path, memory, rows, columns, most = Path(arguments[0]), *map(int, arguments[1:])
    # Where the system has no such limit, what is counted still ends it.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    return try_file(path, TableLimits(rows, columns, most))


def try_file(path: Path, limits: TableLimits) -> int:
    """Unpack all of it, a batch at a time."""
    try:
        with pq.ParquetFile(path) as file:
            for _ in unpack(file, limits):
                continue
    except (TooLargeError, MemoryError):
        return TRIAL_REFUSES
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return 0  # The parent meets the same fault, and words it.
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
