"""Where results lie: whole files of JSON, a line a row, so that a run that was stopped goes on where it was.

A file is written beside its place and then put there in one step: a reader sees the old file or the new one.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from models.errors import ArtifactError

HERE = Path(__file__).parent
RESULTS, CACHE = HERE / "results", HERE / "cache"

Row: TypeAlias = dict[str, Any]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of the public data sets, if there is one, and the folder of what was trained before."""

    data: Path | None
    cache: Path

    @classmethod
    def of(cls, cache: Path) -> "Places":
        """With the public data sets in the folder that RECOURSE_DATA names."""
        folder = os.environ.get("RECOURSE_DATA")
        return cls(Path(folder) if folder else None, cache)


class RowFile:
    """The rows of one file; `key` names the fields that tell one run from another.

    >>> store = RowFile(folder / "ablation.json", ("dataset", "seed"))
    >>> if not store.has({"dataset": "moons", "seed": 0}):
    ...     store.put([{"dataset": "moons", "seed": 0, "cost": 0.9}])
    """

    def __init__(self, path: Path, key: Sequence[str]) -> None:
        self.path, self.key = path, tuple(key)
        self.rows = read_rows(path)

    def has(self, row: Mapping[str, object]) -> bool:
        """Whether a row has the same values in all fields of the key."""
        return any(self._place(each) == self._place(row) for each in self.rows)

    def put(self, rows: Sequence[Row]) -> None:
        """Keep the rows; those with the same key that were there before go."""
        places = {self._place(row) for row in rows}
        self.rows = [row for row in self.rows if self._place(row) not in places] + list(rows)
        write_rows(self.path, self.rows)

    def _place(self, row: Mapping[str, object]) -> tuple[object, ...]:
        return tuple(row.get(name) for name in self.key)


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """A JSON list with a line for each row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def read_rows(path: Path) -> list[Row]:
    """The rows of the file; none where there is no file."""
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text())
    except ValueError as error:
        raise ArtifactError(f"'{path}' is not JSON; delete it to start again.") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ArtifactError(f"'{path}' does not hold a list of rows; delete it to start again.")
    return rows


def made_from(kind: type[Made], row: Row) -> Made:
    """A dataclass from a row that may hold the fields of several; a field that the row lacks is None."""
    return kind(**{field.name: row.get(field.name) for field in fields(kind)})  # type: ignore[arg-type]


def write_whole(path: Path, text: str) -> None:
    """Write the file whole or not at all, its folder too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
