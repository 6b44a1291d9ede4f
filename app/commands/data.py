"""`recourse data`: a built-in data set as CSV; and how the other commands find their data and read records.

What needs the method's packages is imported where it is used: the plain install has them not.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pandas as pd
import typer

from app.commands.console import answers, notes
from app.datasets.reader import read_table
from app.settings import Settings
from models.data.columns import check_columns, inspect_columns
from models.data.frames import plain_values
from models.data.infer import infer_schema
from models.data.json_fields import read_mapping
from models.data.records import ReadRecords, category_text, check_names, one_text, read_each
from models.data.schema import Feature, Schema, override_table
from models.errors import DataError, SchemaError, TargetError

if TYPE_CHECKING:
    from models.datasets.dataset import Dataset

ENDINGS = (".csv", ".csv.gz", ".parquet", ".pq")
_TRUTH = {"true": "True", "false": "False"}
"""pandas reads these as truth values in a training file, whose categories are then True and False."""

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The data set; without it, the names are listed.")]
Seed = Annotated[int, typer.Option(min=0, help="Where a data set is made here: another seed, other rows.")]
Only = Annotated[str | None, typer.Option(metavar="LABEL", help="Only the rows of this class.")]
Rows = Annotated[int | None, typer.Option(min=1, help="Only so many rows, the first ones.")]


def data(name: Name = None, seed: Seed = 0, only: Only = None, rows: Rows = None) -> None:
    """Print a built-in data set as CSV, label included, or list the names."""
    from models.datasets import NAMES

    if name is None:
        answers().print("\n".join(NAMES))
        return
    typer.echo(_rows_as_csv(name, seed, only, rows), nl=False)


def _rows_as_csv(name: str, seed: int, only: str | None, rows: int | None) -> str:
    from models.datasets import load

    dataset = load(name, Settings().data, seed)
    frame = dataset.frame
    if only is not None:
        texts = [category_text(value) for value in plain_values(frame[dataset.label])]
        if only not in texts:
            known = ", ".join(sorted(set(texts)))
            raise TargetError(f"No row of '{name}' has the label '{only}'; the classes are {known}.")
        frame = frame[[text == only for text in texts]]
    return frame.head(len(frame) if rows is None else rows).to_csv(index=False)


def read_frame(path: Path, as_text: bool = False) -> pd.DataFrame:
    """The table in a file that the user named; `as_text` leaves the values of a CSV as they are written."""
    if not path.is_file():
        raise DataError(f"There is no file '{path}'; check the path.")
    if not path.name.lower().endswith(ENDINGS):
        raise DataError(f"The file '{path}' has an unknown ending; the endings are {', '.join(ENDINGS)}.")
    return read_table(path, name=str(path), as_text=as_text).frame


def read_data(data: str, label: str | None, schema: Path | None) -> "Dataset":
    """DATA of the command line with the overrides of its schema file."""
    from models.datasets import NAMES
    from models.training.pipeline import with_overrides

    overrides = read_overrides(schema) if schema is not None else {}
    dataset = with_overrides(_find_data(data, label), label, overrides)
    if data not in NAMES:
        dataset = _inspected(dataset)
    _check_kinds(dataset)
    return dataset


def _inspected(dataset: "Dataset") -> "Dataset":
    """A user's table without the columns that are left out; DataError for codes that nobody said are numbers."""
    said = override_table(dataset.overrides)
    label = dataset.label if dataset.label in dataset.frame.columns else None
    seen = inspect_columns(dataset.frame, label, said)
    if seen.codes:
        raise DataError(one_text(list(seen.codes.values())))
    for sentence in (*seen.left_out.values(), *seen.notices):
        notes().print(sentence, soft_wrap=True)
    return replace(dataset, frame=dataset.frame.drop(columns=list(seen.left_out)))


def _find_data(data: str, label: str | None) -> "Dataset":
    """DATA of the command line: the name of a built-in data set, which knows its label, or a file, which does not."""
    from models.datasets import NAMES, load
    from models.datasets.dataset import Dataset

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


def _check_kinds(dataset: "Dataset") -> None:
    """The schema file may say of a column of numbers or dates that it is a category."""
    table = override_table(dataset.overrides)
    said = {name for name, changes in table.items() if "kind" in changes}

    def way_out(name: str) -> str:
        wanted = json.dumps({"features": {name: {"kind": "categorical"}}}, ensure_ascii=False)
        return f"say with --schema that it is a category: {wanted}"

    def read(rest: pd.DataFrame) -> None:
        infer_schema(rest, dataset.label, {"features": {name: table[name] for name in table if name in rest.columns}})

    check_columns(dataset.frame, {dataset.label, *said}, way_out, read)


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


def read_rows(schema: Schema, path: Path, limit: int | None) -> ReadRecords:
    """The records of a CSV or Parquet file; wrong columns are the file's fault, a wrong value is its row's."""
    frame = read_frame(path, as_text=True)
    check_names(schema, [str(name) for name in frame.columns], "file")
    frame = frame.head(len(frame) if limit is None else limit)
    columns = {
        feature.name: [_as_trained(feature, value) for value in plain_values(frame[feature.name])]
        for feature in schema.features
    }
    rows = zip(*columns.values(), strict=True)
    return read_each(schema, [dict(zip(columns, row, strict=True)) for row in rows])


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
