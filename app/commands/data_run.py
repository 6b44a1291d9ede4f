"""The work of `recourse data`, and how the other commands find their data: a file, or a built-in data set."""

from pathlib import Path

import pandas as pd

from app.commands.files import read_frame
from app.settings import Settings
from models.data.frames import plain_values
from models.data.records import category_text
from models.datasets import NAMES, load
from models.datasets.dataset import Dataset
from models.errors import DataError, TargetError


def listed() -> str:
    return "\n".join(NAMES)


def rows_as_csv(name: str, seed: int, only: str | None, rows: int | None) -> str:
    dataset = load(name, Settings().data, seed)
    frame = dataset.frame
    if only is not None:
        texts = [category_text(value) for value in plain_values(frame[dataset.label])]
        if only not in texts:
            known = ", ".join(sorted(set(texts)))
            raise TargetError(f"No row of '{name}' has the label '{only}'; the classes are {known}.")
        frame = frame[[text == only for text in texts]]
    return frame.head(len(frame) if rows is None else rows).to_csv(index=False)


def find_data(data: str, label: str | None) -> Dataset:
    """DATA of the command line: the name of a built-in data set, which knows its label, or a file, which does not."""
    if data in NAMES:
        return load(data, Settings().data)
    path = Path(data)
    if not path.is_file() and not path.suffix:
        raise DataError(f"'{data}' is neither a file nor a data set; the data sets are {', '.join(NAMES)}.")
    frame = read_frame(path)
    _check_names(data, frame)
    if label is None:
        columns = ", ".join(str(name) for name in frame.columns)
        raise DataError(f"Say which column of '{data}' is the label with --label; the columns are {columns}.")
    return Dataset(path.name, frame, label)


def _check_names(data: str, frame: pd.DataFrame) -> None:
    """No option of the command line could name such a column: the ends of what is typed are cut."""
    for name in map(str, frame.columns):
        if not name or name != name.strip():
            raise DataError(f"The column name '{name}' of '{data}' is empty or ends in a space; rename the column.")
