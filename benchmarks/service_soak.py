"""The memory of the serving processes over many records: `python -m benchmarks.service --soak 100000`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks.quality_store import write_whole

PARTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
WANTED_GROWTH = 0.05
"""From a tenth of the records to all of them: caches and the allocator's pools are filled by then."""


@dataclass(frozen=True, slots=True)
class Soak:
    """MB of all serving processes when so many records had been explained: medians of ten samples around each."""

    mode: str
    explained: int
    seconds: float
    resident_mb: dict[str, float]
    failures: dict[str, int]

    @property
    def growth(self) -> float:
        """From a tenth to the end."""
        sizes = list(self.resident_mb.values())
        return sizes[-1] / sizes[0] - 1.0


def soak_of(
    mode: str, seen: Sequence[tuple[float, float]], explained: int, seconds: float, failures: dict[str, int]
) -> Soak:
    """From what was seen each second: records so far, and MB."""
    sizes = {}
    for part in PARTS:
        nearest = sorted(seen, key=lambda sample: abs(sample[0] - part * explained))[:10]
        sizes[str(round(part * explained))] = median(size for _, size in nearest)
    return Soak(mode, explained, seconds, sizes, failures)


def write_soaks(soaks: Sequence[Soak], folder: Path) -> None:
    """service_soak.json; the modes that were not run keep what they had."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "service_soak.json"
    before = json.loads(path.read_text()) if path.exists() else []
    found = [asdict(soak) | {"growth": soak.growth, "wanted_growth": WANTED_GROWTH} for soak in soaks]
    kept = [entry for entry in before if entry["mode"] not in {soak.mode for soak in soaks}]
    write_whole(path, json.dumps(kept + found, indent=1) + "\n")
