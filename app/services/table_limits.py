"""How large a table may be, what its columns may be called, and the words for one that is refused."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import TooLargeError
from models.errors import DataError

UNPACKED_TIMES = 20
"""A Parquet file may unpack to this many times the largest upload; more is a bomb."""


@dataclass(frozen=True, slots=True)
class TableLimits:
    """The largest table; bytes: as it is sent."""

    rows: int
    columns: int
    bytes: int

    @property
    def unpacked_bytes(self) -> int:
        return self.bytes * UNPACKED_TIMES


def check_names(names: Sequence[str], most: int) -> None:
    """DataError for columns that cannot be told apart, TooLargeError for more than `most`."""
    if len(names) > most:
        raise too_many("columns", str(len(names)), most)
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(f"The header is one name, '{names[0][:60]}'; separate the columns with commas.")
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise DataError(f"Column {position} has no name in the header; name every column.")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"The header has the column '{repeated[0][:60]}' twice; rename or drop one of them.")


def too_many(what: str, found: str, limit: int) -> TooLargeError:
    return TooLargeError(f"the table has {found} {what}, but {limit} is the limit: send a sample of it")


def one_line(error: Exception) -> str:
    """What a library says of a file, short enough for an answer."""
    return " ".join(str(error).split()).rstrip(".")[:200]
