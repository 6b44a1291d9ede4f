"""The attacks in a file and on a page: hostile.json and HOSTILE.md."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.hostile.verdict import BACK_SECONDS, LIVE_SECONDS, MOST_GROWTH_MB, OTHERS_SECONDS, Verdict
from benchmarks.store import write_whole

JSON_FILE, PAGE = "hostile.json", "HOSTILE.md"
HEAD = f"""# Hostile clients

Written by `python -m benchmarks.hostile`. Real processes on the loopback of one machine: `embedded` is `recourse serve`
alone, on SQLite; `production` is Postgres, Redis, the API and a worker, without the proxy of docker-compose.yml: what
is measured are the API's own bounds. One attack after the other, on the same service, each for some seconds. All the
while an honest tenant goes on calling, each time on a new connection: /livez, /readyz, /budgets, a small /explain and a
prediction of its own lender.

Asked for: all processes of the service stay within {MOST_GROWTH_MB:.0f} MB of what they had when they had started;
/livez answers within {LIVE_SECONDS:g} s and the others within {OTHERS_SECONDS:g} s, each time; everything is well
within {BACK_SECONDS:g} s after the attack. Not counted are a training's own process, which works for whoever ordered
it, and the memory of Postgres and Redis. Seconds are the worst call, before the attack and during it; the attackers
share the processors with what they attack.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One mode: megabytes when it had started, the machine's load before and after, and what `budget check` said."""

    mode: str
    start_mb: float
    load: tuple[float, float]
    verdicts: tuple[Verdict, ...]
    ledger: str

    @property
    def holds(self) -> bool:
        return all(verdict.holds for verdict in self.verdicts)


def line(verdict: Verdict) -> str:
    """One attack in a line of the terminal."""
    calls = f"/livez {_change(verdict.calm.live, verdict.during.live)}, others {_change(*_others(verdict))}"
    told = f"{verdict.attack}: {verdict.growth_mb:+.0f} MB, {calls}, well after {verdict.back_seconds:.1f} s"
    return f"{told}; {_figures(verdict)}; {'; '.join(verdict.faults) or 'holds'}"


def write(runs: Sequence[Run], folder: Path) -> None:
    """Both files."""
    document = [asdict(run) | {"holds": run.holds} for run in runs]
    write_whole(folder / JSON_FILE, json.dumps(document, indent=1) + "\n")
    write_whole(folder / PAGE, "\n".join([HEAD, *map(section, runs)]))


def section(run: Run) -> str:
    """A table of one mode."""
    held = sum(verdict.holds for verdict in run.verdicts)
    head = f"{held} of {len(run.verdicts)} hold; {run.start_mb:.0f} MB at the start; load average {run.load[0]:.1f} at "
    head += f"the start, {run.load[1]:.1f} at the end. `recourse budget check` afterwards: {run.ledger}"
    rows = [
        "| attack | memory | /livez | others | well after | what the attacker saw | |",
        "| --- | ---: | ---: | ---: | ---: | --- | --- |",
        *map(_row, run.verdicts),
    ]
    return "\n".join([f"## {run.mode}\n\n{head}\n", *rows, ""])


def _row(verdict: Verdict) -> str:
    cells = [
        verdict.attack,
        f"{verdict.growth_mb:+.0f} MB",
        f"{_change(verdict.calm.live, verdict.during.live)} s",
        f"{_change(*_others(verdict))} s",
        f"{verdict.back_seconds:.1f} s",
        _figures(verdict),
        "; ".join(verdict.faults) or "holds",
    ]
    return "| " + " | ".join(cells) + " |"


def _others(verdict: Verdict) -> tuple[float, float]:
    return verdict.calm.others, verdict.during.others


def _change(before: float, during: float) -> str:
    return f"{before:.2f} → {during:.2f}"


def _figures(verdict: Verdict) -> str:
    threads, descriptors = verdict.threads, verdict.descriptors
    counted = {
        "cores": f"{verdict.cores[0]:.1f} → {verdict.cores[1]:.1f}",
        "threads": f"{threads[0]} → {threads[1]}",
        "descriptors": f"{descriptors[0]} → {descriptors[1]}",
    }
    return ", ".join(f"{name} {value}" for name, value in (verdict.figures | counted).items())
