"""The engine alone, beside which the service is measured: `python -m benchmarks.service_engine FOLDER RECORDS.json`.

The same records, the same search, one thread, in a process of its own: in full batches, and one record at a time.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch

from models.artifact import load_model
from models.records import check_record
from models.search import explain, target_codes

BATCH = 64
"""The service's own."""


@dataclass(frozen=True, slots=True)
class Engine:
    """records_a_second and processor milliseconds a record in batches; p50_ms of one record alone."""

    records_a_second: float
    cpu_ms_a_record: float
    p50_ms: float


def measure(folder: Path, records_file: Path, target: str, seconds: float) -> Engine:
    torch.set_num_threads(1)
    model = load_model(folder)
    raw = json.loads(records_file.read_text())
    records = np.concatenate([check_record(model.encoder.schema, record) for record in raw])
    for rows in ([0], range(BATCH)):
        explain(model, records[list(rows)], target_codes(model, target, len(rows)))
    done, began, worked = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        rows = [row % len(records) for row in range(done, done + BATCH)]
        explain(model, records[rows], target_codes(model, target, BATCH))
        done += BATCH
    whole, work = time.perf_counter() - began, time.process_time() - worked
    alone = list[float]()
    end = time.perf_counter() + seconds / 2
    while time.perf_counter() < end:
        row = len(alone) % len(records)
        started = time.perf_counter()
        explain(model, records[row : row + 1], target_codes(model, target, 1))
        alone.append(1000 * (time.perf_counter() - started))
    return Engine(done / whole, 1000 * work / done, median(alone))


def main() -> int:
    folder, records_file, target, seconds = sys.argv[1:]
    json.dump(asdict(measure(Path(folder), Path(records_file), target, float(seconds))), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
