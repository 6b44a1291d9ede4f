"""What the service does for everybody else while somebody attacks it: `python -m benchmarks.hostile`.

The service runs as an operator runs it, on the loopback, in both modes; the attacks come one after the other, each for
some seconds, while an honest tenant goes on calling (benchmarks/hostile/watcher.py). It is judged by what that tenant
was answered, by the memory of all processes, and by how soon everything is well again.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from app.connections import allow_descriptors
from app.db.tables import Role
from benchmarks.hostile.attacks import ATTACKS, Attack
from benchmarks.hostile.report import Run, line, write
from benchmarks.hostile.site import MODES, Site, running, scratch
from benchmarks.hostile.verdict import OK, Verdict, judge
from benchmarks.hostile.watcher import Watch, Watched, sample
from benchmarks.store import RESULTS

CALM_SECONDS, AFTER_SECONDS = 4.0, 6.0
WATCHER_SECONDS = 90.0
"""The watcher ends when its last calls are answered or given up."""
POLITENESS = 5
"""The attackers share the machine with what they attack; elsewhere they have processors of their own."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    console = Console(stderr=True, soft_wrap=True)
    chosen = [attack for attack in ATTACKS if not options.only or any(word in attack.name for word in options.only)]
    # Told to end, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    allow_descriptors()
    os.nice(POLITENESS)
    runs = []
    with scratch(options.folder) as folder:
        for mode in options.mode:
            with running(mode, folder / mode) as site:
                runs.append(run_mode(site, chosen, options.seconds, console))
    write(runs, options.results)
    return 0 if all(run.holds for run in runs) else 1


def run_mode(site: Site, attacks: Sequence[Attack], seconds: float, console: Console) -> Run:
    """Every attack on one service, one after the other: what one leaves behind, the next finds."""
    load = os.getloadavg()[0]
    warm_up(site)
    start = sample(site.processes.tree()).resident_mb
    verdicts = []
    for attack in attacks:
        verdicts.append(run_attack(site, attack, seconds, start))
        console.print(f"{site.mode}: {line(verdicts[-1])}", markup=False)
        site.processes.check()
    told = site.processes.run(["budget", "check"])
    return Run(site.mode, start, (load, os.getloadavg()[0]), tuple(verdicts), told.splitlines()[-1])


def warm_up(site: Site) -> None:
    """Every probe some times: what is loaded with the first call counts as the start."""
    with watching(site) as seen:
        time.sleep(CALM_SECONDS)
    wrong = [call for call in seen[0].calls if call.status != OK]
    if wrong:
        raise SystemExit(f"the service is not well before any attack: {wrong[0]}")


def run_attack(site: Site, attack: Attack, seconds: float, start_mb: float) -> Verdict:
    """Some calm seconds, the attack, and some seconds more."""
    with watching(site) as seen:
        time.sleep(CALM_SECONDS)
        began = time.monotonic()
        found = attack.run(site, seconds)
        ended = time.monotonic()
        time.sleep(AFTER_SECONDS)
    return judge(attack.name, site.mode, seen[0], (began, ended), start_mb, found, attack.stops_service)


@contextmanager
def watching(site: Site) -> Iterator[list[Watched]]:
    """What is seen meanwhile, there at the end."""
    command, found = [sys.executable, "-m", "benchmarks.hostile.watcher"], list[Watched]()
    watch = Watch(site.url, site.honest.keys[Role.CLIENT], site.probes(), str(site.processes.pids))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(asdict(watch)) + "\n")
            process.stdin.flush()
            yield found
            told, _ = process.communicate(timeout=WATCHER_SECONDS)
            found.append(Watched.read(told))
        finally:
            process.kill()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__)
    parser.add_argument("--mode", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="attacks whose name holds one of these")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each attack")
    parser.add_argument("--folder", type=Path, help="where the service keeps its files and logs; by default a new one")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
