"""The engine alone, beside which the service is measured: the same records and search, one thread, its own process.

`python -m benchmarks.service.engine FOLDER RECORDS.json TARGET SECONDS` searches so long in full batches, then one
record at a time. Without SECONDS it takes turns: for each line of stdin, a record's number, it writes its milliseconds.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch

from models.data.records import check_record
from models.search.search import explain, target_codes
from models.storage.artifact import load_model

BATCH = 64
"""The service's own."""


@dataclass(frozen=True, slots=True)
class Engine:
    """records_a_second and processor milliseconds a record in batches; p50_ms of one record alone."""

    records_a_second: float
    cpu_ms_a_record: float
    p50_ms: float


class Searcher:
    """The model and the records, warm."""

    def __init__(self, folder: Path, records_file: Path, target: str) -> None:
        torch.set_num_threads(1)
        self._model, self._target = load_model(folder), target
        raw = json.loads(records_file.read_text())
        self._records = np.concatenate([check_record(self._model.encoder.schema, record) for record in raw])
        for size in (1, BATCH):
            self.search(0, size)

    def search(self, start: int, size: int) -> None:
        """The records from `start` on, in one batch; after the last comes the first."""
        rows = [row % len(self._records) for row in range(start, start + size)]
        explain(self._model, self._records[rows], target_codes(self._model, self._target, size))

    def milliseconds(self, row: int) -> float:
        """Of one record alone."""
        began = time.perf_counter()
        self.search(row, 1)
        return 1000 * (time.perf_counter() - began)


def measure(searcher: Searcher, seconds: float) -> Engine:
    done, began, worked = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        searcher.search(done, BATCH)
        done += BATCH
    whole, work = time.perf_counter() - began, time.process_time() - worked
    alone = list[float]()
    end = time.perf_counter() + seconds / 2
    while time.perf_counter() < end:
        alone.append(searcher.milliseconds(len(alone)))
    return Engine(done / whole, 1000 * work / done, median(alone))


def take_turns(searcher: Searcher) -> None:
    for line in sys.stdin:
        sys.stdout.write(f"{searcher.milliseconds(int(line))}\n")
        sys.stdout.flush()


def main() -> int:
    folder, records_file, target, *seconds = sys.argv[1:]
    searcher = Searcher(Path(folder), Path(records_file), target)
    if seconds:
        json.dump(asdict(measure(searcher, float(seconds[0]))), sys.stdout)
    else:
        take_turns(searcher)
    return 0


if __name__ == "__main__":
    sys.exit(main())
