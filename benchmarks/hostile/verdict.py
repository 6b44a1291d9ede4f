"""What an attack did to everybody else, from what the watcher saw: figures, and whether they keep what is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.hostile.watcher import Call, Sample, Watched

MOST_GROWTH_MB = 300.0
"""All processes of the service together, beside what they had when they had started."""
LIVE_SECONDS, OTHERS_SECONDS, BACK_SECONDS = 1.0, 2.0, 5.0
LIVE, READY = "livez", "readyz"
OK = 200
LONG_AGO = float("inf")


@dataclass(frozen=True, slots=True)
class Seen:
    """What the attack itself saw: figures for the table, and what must not be, each a sentence."""

    figures: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Part:
    """The calls of one part of the time: the worst of each probe in seconds, and statuses other than 200."""

    worst: dict[str, float]
    calls: dict[str, int]
    failures: dict[str, int]

    @property
    def live(self) -> float:
        return self.worst.get(LIVE, 0.0)

    @property
    def others(self) -> float:
        """The worst call of another tenant."""
        return max((worst for probe, worst in self.worst.items() if probe not in (LIVE, READY)), default=0.0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One attack in one mode; pairs are before the attack and during it: the most of threads and descriptors, and the
    processors that were at work for the service."""

    attack: str
    mode: str
    calm: Part
    during: Part
    growth_mb: float
    training_mb: float
    threads: tuple[int, int]
    descriptors: tuple[int, int]
    cores: tuple[float, float]
    back_seconds: float
    figures: dict[str, float]
    faults: list[str]

    @property
    def holds(self) -> bool:
        return not self.faults


def part_of(calls: Sequence[Call], since: float, until: float) -> Part:
    """The calls that began between the two moments."""
    worst, counts, failures = dict[str, float](), dict[str, int](), dict[str, int]()
    for call in calls:
        if since <= call.at < until:
            worst[call.probe] = max(worst.get(call.probe, 0.0), call.seconds)
            counts[call.probe] = counts.get(call.probe, 0) + 1
            if call.status != OK:
                name = f"{call.probe} {call.status}"
                failures[name] = failures.get(name, 0) + 1
    return Part(worst, counts, failures)


def is_good(call: Call) -> bool:
    return call.status == OK and call.seconds < (LIVE_SECONDS if call.probe == LIVE else OTHERS_SECONDS)


def back_after(calls: Sequence[Call], ended: float) -> float:
    """Seconds from the end of the attack until every probe was answered well, and went on to be; inf: never."""
    back = 0.0
    for probe in {call.probe for call in calls}:
        after = [call for call in calls if call.probe == probe and call.at >= ended]
        bad = [call.at for call in after if not is_good(call)]
        good = [call.at + call.seconds for call in after if is_good(call) and call.at > max(bad, default=0.0)]
        back = max(back, min(good, default=LONG_AGO) - ended)
    return back


def judge(
    attack: str,
    mode: str,
    watched: Watched,
    times: tuple[float, float],
    start_mb: float,
    seen: Seen,
    stops_service: bool = False,
) -> Verdict:
    """`times`: when the attack began and ended; `start_mb`: of the service when it had started."""
    began, ended = times
    calm, during = part_of(watched.calls, 0.0, began), part_of(watched.calls, began, ended)
    before = [one for one in watched.samples if one.at < began]
    later = [one for one in watched.samples if one.at >= began]
    growth = max((one.resident_mb for one in later), default=start_mb) - start_mb
    back = back_after(watched.calls, ended)
    faults = list(seen.faults)
    if growth > MOST_GROWTH_MB:
        faults.append(f"the processes grew by {growth:.0f} MB")
    if not stops_service:
        faults += _late(during)
    if back > BACK_SECONDS:
        faults.append(f"full service {back:.1f} s after the attack")
    return Verdict(
        attack=attack,
        mode=mode,
        calm=calm,
        during=during,
        growth_mb=growth,
        training_mb=max((one.training_mb for one in watched.samples), default=0.0),
        threads=(_most(before, "threads"), _most(later, "threads")),
        descriptors=(_most(before, "descriptors"), _most(later, "descriptors")),
        cores=(_cores(before), _cores([one for one in later if one.at <= ended])),
        back_seconds=back,
        figures=seen.figures,
        faults=faults,
    )


def _late(during: Part) -> list[str]:
    told = []
    if during.live >= LIVE_SECONDS:
        told.append(f"/livez took {during.live:.2f} s")
    if during.others >= OTHERS_SECONDS:
        told.append(f"another tenant's call took {during.others:.2f} s")
    if during.failures:
        told.append("others got " + ", ".join(f"{count} x {name}" for name, count in sorted(during.failures.items())))
    return told


def _cores(samples: Sequence[Sample]) -> float:
    """Processors that were at work for the service, on average."""
    if len(samples) < 2:
        return 0.0
    return max(0.0, samples[-1].worked - samples[0].worked) / (samples[-1].at - samples[0].at)


def _most(samples: Sequence[Sample], name: str) -> int:
    return max((int(getattr(one, name)) for one in samples), default=0)
