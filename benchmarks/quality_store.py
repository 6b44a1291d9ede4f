"""The results of the quality benchmark on disk: what is finished stays, and a file is whole or not there."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from models.ensemble.recipes import Mode
from models.errors import ArtifactError
from models.evaluation.evaluation import Evaluation, MeasuredPoint, Quality

QUALITY_FILE = "quality.json"
FRONTIER_FILE = "quality-frontier.json"


@dataclass(frozen=True, slots=True)
class Job:
    """One run: the seed decides the split and everything that is trained; `limit` is how many test records at most."""

    dataset: str
    seed: int
    ensemble: Mode
    limit: int


@dataclass(frozen=True, slots=True)
class QualityRow:
    """One method in one run."""

    job: Job
    quality: Quality


@dataclass(frozen=True, slots=True)
class FrontierRow:
    """One setting of the dial in one run."""

    job: Job
    point: MeasuredPoint


class Store:
    """The rows of all runs; a run that is put again takes the place of what the same data set and seed had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.qualities = [_read_quality(row) for row in _read_rows(folder / QUALITY_FILE)]
        self.frontier = [_read_point(row) for row in _read_rows(folder / FRONTIER_FILE)]

    def finished(self, job: Job) -> bool:
        return any(row.job == job for row in self.qualities)

    def put(self, job: Job, evaluation: Evaluation) -> None:
        """Keep a run; quality.json is written last, because it says what is finished."""
        self.qualities = [row for row in self.qualities if not _same_place(row.job, job)]
        self.frontier = [row for row in self.frontier if not _same_place(row.job, job)]
        self.qualities += [QualityRow(job, quality) for quality in evaluation.qualities]
        self.frontier += [FrontierRow(job, point) for point in evaluation.frontier]
        points = [asdict(row.job) | asdict(row.point) for row in self.frontier]
        qualities = [asdict(row.job) | asdict(row.quality) for row in self.qualities]
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / FRONTIER_FILE, _as_lines(points))
        write_whole(self.folder / QUALITY_FILE, _as_lines(qualities))


def write_whole(path: Path, text: str) -> None:
    """Write the file beside its place, then put it there in one step: a reader sees the old file or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _same_place(one: Job, other: Job) -> bool:
    return (one.dataset, one.seed) == (other.dataset, other.seed)


def _as_lines(rows: Iterable[dict[str, object]]) -> str:
    """A JSON list with a line for each row."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def _read_rows(path: Path) -> list[dict[str, object]]:
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text())
    except ValueError as error:
        raise ArtifactError(f"'{path}' is not JSON; delete it to start anew.") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ArtifactError(f"'{path}' does not hold a list of rows; delete it to start anew.")
    return rows


def _read_quality(row: dict[str, object]) -> QualityRow:
    return QualityRow(_part(Job, row), _part(Quality, row))


def _read_point(row: dict[str, object]) -> FrontierRow:
    return FrontierRow(_part(Job, row), _part(MeasuredPoint, row))


Part = TypeVar("Part", Job, Quality, MeasuredPoint)


def _part(kind: type[Part], row: dict[str, object]) -> Part:
    """The fields of `kind` from a row that holds those of several."""
    values: dict[str, Any] = {field.name: row.get(field.name) for field in fields(kind)}
    return kind(**values)
