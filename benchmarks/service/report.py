"""The figures of the service's benchmark and of its soak: what they are, what is asked of them, their picture."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.service.engine import Engine
from benchmarks.store import write_whole

WANTED = {1: 0.3, 32: 0.7}
"""The share of the engine's own records a second that is asked for, by records a request."""
WANTED_OVER_MS = 5.0


@dataclass(frozen=True, slots=True)
class Point:
    """One load.

    batch: mean records a search; engine: the share of the time that a search ran; cpu: cores in use. Processor time a
    record is what a busy machine changes least.
    """

    clients: int
    records: int
    requests: int
    records_a_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    failures: dict[str, int]
    batch: float
    engine: float
    engine_ms_a_record: float
    cpu: float
    cpu_ms_a_record: float


@dataclass(frozen=True, slots=True)
class Turn:
    """The milliseconds of one record: by the engine alone, and right after it by one client of the service."""

    engine_ms: float
    service_ms: float


@dataclass(frozen=True, slots=True)
class Report:
    """One mode: the engine alone before and after, the service under each load, and both in turns."""

    mode: str
    database: str
    engine: Engine
    points: tuple[Point, ...]
    turns: tuple[Turn, ...]
    load_average: float

    def ratio(self, records: int) -> float:
        """The best records a second with so many records a request, beside the engine's."""
        return max(p.records_a_second for p in self.points if p.records == records) / self.engine.records_a_second

    @property
    def over_ms(self) -> float:
        """What the service adds to the median record of one client, both asked at the same pace."""
        return median(turn.service_ms for turn in self.turns) - median(turn.engine_ms for turn in self.turns)

    @property
    def over_hurried_ms(self) -> float:
        """The same beside the engine that has the next record at hand, its caches warm; not at the same moment."""
        return median(turn.service_ms for turn in self.turns) - self.engine.p50_ms

    def bound(self, records: int) -> str:
        """What bounds the service at its best with so many records a request, in words."""
        best = max((p for p in self.points if p.records == records), key=lambda point: point.records_a_second)
        processor = f"{best.cpu_ms_a_record:.2f} ms of a processor, {self.engine.cpu_ms_a_record:.2f} the engine alone"
        cores = f"{processor}; {best.cpu:.2f} cores in use, batches of {best.batch:.0f}"
        alone = 1000 / self.engine.records_a_second
        own = f"{best.engine_ms_a_record:.2f} ms a record in the search, {alone:.2f} without the service"
        if best.engine > 0.9:
            return f"the search: it runs {best.engine:.0%} of the time ({own}; {cores})"
        return f"what is around the search, which runs only {best.engine:.0%} of the time ({own}; {cores})"


def document(reports: Sequence[Report]) -> str:
    found = []
    for report in reports:
        summary: dict[str, object] = {
            f"ratio_{records}": {"measured": report.ratio(records), "wanted": wanted, "bound": report.bound(records)}
            for records, wanted in WANTED.items()
        }
        summary["over_engine_ms"] = {
            "measured": report.over_ms,
            "wanted": WANTED_OVER_MS,
            "over_the_engine_back_to_back": report.over_hurried_ms,
        }
        turns = {
            "count": len(report.turns),
            "engine_ms_deciles": _deciles([turn.engine_ms for turn in report.turns]),
            "service_ms_deciles": _deciles([turn.service_ms for turn in report.turns]),
        }
        found.append(asdict(report) | {"turns": turns, "summary": summary})
    return json.dumps(found, indent=1) + "\n"


def _deciles(values: Sequence[float]) -> list[float]:
    found: list[float] = np.percentile(values, range(10, 100, 10)).round(3).tolist()
    return found


def write(reports: Sequence[Report], folder: Path) -> None:
    """service.json and service.png"""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "service.json", document(reports))
    figure, axes = plt.subplots(len(reports), 2, figsize=(10, 3.6 * len(reports)), squeeze=False)
    for (left, right), report in zip(axes, reports, strict=True):
        _draw_rates(left, report)
        _draw_latencies(right, report)
    figure.tight_layout()
    figure.savefig(folder / "service.png", dpi=130)
    plt.close(figure)


def _draw_rates(axis: Axes, report: Report) -> None:
    for records in WANTED:
        points = [point for point in report.points if point.records == records]
        axis.plot([p.clients for p in points], [p.records_a_second for p in points], "o-", label=f"{records} a request")
    axis.axhline(report.engine.records_a_second, color="black", linestyle="--", label="the engine alone")
    axis.set(title=f"{report.mode}, {report.database}", xlabel="clients", ylabel="records a second", xscale="log")
    axis.set_ylim(bottom=0)
    axis.legend()


def _draw_latencies(axis: Axes, report: Report) -> None:
    names = [f"{point.clients} x {point.records}" for point in report.points]
    places = np.arange(len(names))
    for name, colour in (("p99_ms", "#c6dbef"), ("p95_ms", "#6baed6"), ("p50_ms", "#08519c")):
        axis.bar(places, [getattr(point, name) for point in report.points], color=colour, label=name[:3])
    axis.axhline(report.engine.p50_ms, color="black", linestyle="--", label="one record, engine alone")
    axis.set(yscale="log", ylabel="ms", xlabel="clients x records a request", title="latency")
    axis.set_xticks(places, names)
    axis.legend()


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
