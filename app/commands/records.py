"""Records from a file, one by one, so that a bad one is told apart from its neighbours."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.commands.files import read_frame
from models.arrays import Records
from models.data.frames import plain_values
from models.data.records import category_text, check_names, check_record
from models.data.schema import Feature, Schema
from models.errors import RecordError

_TRUTH = {"true": "True", "false": "False"}
"""pandas reads these as truth values in a training file, whose categories are then True and False."""


@dataclass(frozen=True, eq=False)
class ReadRecords:
    """What could be read: records (g, F), their positions among the n rows (g,), and what is wrong with others (n,)."""

    records: Records
    positions: NDArray[np.intp]
    errors: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.errors)


def read_rows(schema: Schema, path: Path, limit: int | None) -> ReadRecords:
    """The records of a CSV or Parquet file; wrong columns are the file's fault, a wrong value is its row's."""
    frame = read_frame(path, as_text=True)
    check_names(schema, [str(name) for name in frame.columns], "file")
    if frame.empty:
        raise RecordError(f"The file '{path}' holds no record; give it at least one row.")
    frame = frame.head(len(frame) if limit is None else limit)
    columns = {
        feature.name: [_as_trained(feature, value) for value in plain_values(frame[feature.name])]
        for feature in schema.features
    }
    records = np.empty((len(frame), len(schema.features)))
    errors: list[str | None] = [None] * len(frame)
    for row in range(len(frame)):
        try:
            records[row] = check_record(schema, {name: values[row] for name, values in columns.items()})
        except RecordError as error:
            errors[row] = str(error)
    good = np.flatnonzero([error is None for error in errors])
    return ReadRecords(records[good], good, tuple(errors))


def _as_trained(feature: Feature, value: object) -> object:
    """A text of a CSV as the training file's reader took it: numbers as numbers, "3.0" as category 3."""
    if not isinstance(value, str) or (feature.is_categorical and value in feature.categories):
        return value
    if feature.is_categorical and (truth := _TRUTH.get(value.lower())) in feature.categories:
        return truth
    number = _number(value)
    if not feature.is_categorical:
        return value if number is None else number
    text = value if number is None else category_text(number)
    return text if text in feature.categories else value


def _number(text: str) -> float | None:
    """float() takes 1_000 for a number; a table does not."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
