"""Tables from files: CSV and Parquet, with one sentence for each way in which a file can be unreadable."""

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from models.data.frames import MISSING_TEXTS, code_positions, with_floats
from models.data.json_fields import read_mapping
from models.errors import DataError, SchemaError

CSV_ENDINGS = (".csv", ".csv.gz")
PARQUET_ENDINGS = (".parquet", ".pq")


def read_frame(path: Path, as_text: bool = False) -> pd.DataFrame:
    """The table in a file. `as_text` leaves the values of a CSV as they are written; empty ones are missing."""
    if not path.is_file():
        raise DataError(f"There is no file '{path}'; check the path.")
    name = path.name.lower()
    if not name.endswith((*CSV_ENDINGS, *PARQUET_ENDINGS)):
        endings = ", ".join((*CSV_ENDINGS, *PARQUET_ENDINGS))
        raise DataError(f"The file '{path}' has an unknown ending; the endings are {endings}.")
    try:
        return _read_csv_file(path, as_text) if name.endswith(CSV_ENDINGS) else with_floats(pd.read_parquet(path))
    except pd.errors.EmptyDataError as error:
        raise DataError(f"The file '{path}' is empty; it needs a header line and rows.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"The file '{path}' is not UTF-8 text; save it as UTF-8.") from error
    except (OSError, EOFError, ValueError, csv.Error) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"The file '{path}' cannot be read as a table: {reason}.") from error


def read_overrides(path: Path) -> Mapping[str, object]:
    """The schema overrides in a JSON file, as in {"features": {"age": {"direction": "up"}}}."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_without_repeats)
    except OSError as error:
        raise SchemaError(f"There is no readable schema file '{path}'; check the path.") from error
    except RecursionError as error:
        raise SchemaError(f"The schema file '{path}' is nested too deep; write it as in the README.") from error
    except ValueError as error:
        raise SchemaError(f"The schema file '{path}' is not JSON: {error}.") from error
    return read_mapping(document, f"the schema file '{path}'")


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """JSON lets the last of two equal keys win, so that a protection could be lost without a word."""
    document: dict[str, object] = {}
    for key, value in pairs:
        if key in document:
            raise SchemaError(f"The schema file has the key '{key}' twice in one object; keep one of them.")
        document[key] = value
    return document


def _read_csv_file(path: Path, as_text: bool) -> pd.DataFrame:
    codes = _check_lines(path)
    texts = str if as_text else dict.fromkeys(codes, str)
    return pd.read_csv(path, dtype=texts, low_memory=False, keep_default_na=False, na_values=MISSING_TEXTS)


def _check_lines(path: Path) -> list[str]:
    """The columns of codes, as in models/codes.py.

    pandas would name what has no name, rename what is there twice, and take a row that was cut off for whole.
    """
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        rows = (row for row in lines if len(row) > 1 or "".join(row).strip())
        header = next(rows, [])
        _check_header(path, header)
        codes: set[int] = set()
        for row in rows:
            if len(row) != len(header):
                found = f"{len(row)} values under {len(header)} column names"
                raise DataError(f"The row that ends in line {lines.line_num} of '{path}' has {found}; mend it.")
            codes |= code_positions(row)
    return [header[position] for position in codes]


def _check_header(path: Path, header: Sequence[str]) -> None:
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        raise DataError(f"The header of '{path}' is one name, '{header[0][:60]}'; separate the columns with commas.")
    for position, name in enumerate(header, start=1):
        if not name.strip():
            raise DataError(f"Column {position} of '{path}' has no name; name every column, or drop it.")
        if header.count(name) > 1:
            raise DataError(f"The file '{path}' has the column '{name}' twice; rename or drop one of them.")
