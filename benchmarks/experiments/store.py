"""Results on disk: a file of rows for each experiment, a line a row; what is finished stays."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from benchmarks.experiments.experiment import Measured, Row
from benchmarks.quality_store import write_whole
from models.errors import ArtifactError

TIMES = "times.json"
Times: TypeAlias = dict[str, dict[str, float]]
"""The seconds by the clock of each experiment, by the number of workers."""


class Rows:
    """The rows of one experiment; a quick run has its own folder, so that it never takes the place of a full one."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.json"
        self.rows = _read(self.path)

    def finished(self, dataset: str, seed: int, variant: str) -> bool:
        return any((row.dataset, row.seed, row.variant) == (dataset, seed, variant) for row in self.rows)

    def put(self, dataset: str, seed: int, variant: str, measured: Measured) -> None:
        """Keep a run; what the same data set, seed and variant had before goes"""
        place = (dataset, seed, variant)
        kept = [row for row in self.rows if (row.dataset, row.seed, row.variant) != place]
        self.rows = [*kept, Row(*place, measured.values, measured.curves, measured.note)]
        write_rows(self.path, self.rows)


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "[\n" + ",\n".join(json.dumps(_rounded(row)) for row in rows) + "\n]\n")


def results_folder(results: Path, quick: bool) -> Path:
    return results / "paper" / ("quick" if quick else "full")


def add_time(folder: Path, name: str, seconds: float, workers: int) -> None:
    """Count the time by the clock that an experiment took, over all runs that brought it where it is"""
    times = read_times(folder)
    before = times.get(name, {}).get(str(workers), 0.0)
    times[name] = times.get(name, {}) | {str(workers): round(before + seconds, 1)}
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / TIMES, json.dumps(times, indent=1) + "\n")


def forget_time(folder: Path, name: str) -> None:
    times = read_times(folder)
    if times.pop(name, None) is not None:
        write_whole(folder / TIMES, json.dumps(times, indent=1) + "\n")


def read_times(folder: Path) -> Times:
    path = folder / TIMES
    times: Times = json.loads(path.read_text()) if path.exists() else {}
    return times


def _rounded(row: Row) -> dict[str, object]:
    """Six digits: a curve is drawn, not computed with"""
    curves = {name: [float(f"{value:.6g}") for value in values] for name, values in row.curves.items()}
    return asdict(row) | {"curves": curves}


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    try:
        return [Row(**document) for document in json.loads(path.read_text())]
    except (ValueError, TypeError) as error:
        raise ArtifactError(f"'{path}' does not hold the rows of an experiment; delete it to start anew.") from error
