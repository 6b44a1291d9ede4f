"""How much of the engine's speed reaches a client: `python -m benchmarks.service`.

The service runs as an operator runs it, as processes of its own on this machine's cores, and writes a decision record
for every answer; the clients are a process of their own; the engine alone is measured beside it, before and after. For
what the service adds to one record both take turns, record by record: a busy host changes by the second, and who has
waited finds cold caches, the engine alone as well. What the engine takes back to back is told beside it.
`--mode workers` puts the explainer into a second process, `--database-url` takes Postgres instead of SQLite.
`--soak 100000` does something else: it explains so many records and watches the memory.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, astuple
from pathlib import Path
from threading import Event, Thread

import httpx
import numpy as np
from rich.console import Console

from benchmarks.service.engine import Engine
from benchmarks.service.load import Load, Measured, OneClient
from benchmarks.service.report import Point, Report, Soak, Turn, soak_of, write, write_soaks
from benchmarks.service.site import RECOURSE, TARGET, Mode, Site, bodies, processor_seconds, refused_records, running
from benchmarks.store import RESULTS

CLIENTS = (1, 8, 64)
SIZES = (1, 32)
MODES = ["embedded", "workers"]
POOL = 1024
TURNS, WARM_UP = 620, 20
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
SOAK_CLIENTS, SOAK_RECORDS = 8, 32


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    console = Console(stderr=True, soft_wrap=True)
    reports, soaks = [], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.model or train_model(Path(scratch) / "model", options.effort)
        records = refused_records(folder, POOL)
        listed = Path(scratch) / "records.json"
        listed.write_text(json.dumps(records))
        for mode in options.modes:
            if options.soak:
                soaks.append(soak_mode(mode, folder, records, Path(scratch) / mode, options, console))
                continue
            report = measure_mode(mode, folder, listed, Path(scratch) / mode, options, console)
            reports.append(report)
            for size in SIZES:
                share = f"{size} a request: {report.ratio(size):.2f} of the engine"
                console.print(f"{mode}, {share}; bound by {report.bound(size)}", markup=False)
            over = f"{report.over_ms:.1f} ms more than the engine alone at the same pace"
            hurried = f"{report.over_hurried_ms:.1f} than the engine that never waits"
            console.print(f"{mode}: one record of one client, {over}, {hurried}")
    if options.soak:
        write_soaks(soaks, options.results)
    else:
        write(reports, options.results)
    return 0


def train_model(folder: Path, effort: float) -> Path:
    """The loans with the service's own commands; a short training is enough to time a search."""
    command = [*RECOURSE, "train", "loans", "--out", str(folder), "--effort", str(effort)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def measure_mode(
    mode: Mode, folder: Path, listed: Path, var_dir: Path, options: argparse.Namespace, console: Console
) -> Report:
    var_dir.mkdir()
    engines = [engine_alone(folder, listed, options.seconds)]
    records = json.loads(listed.read_text())
    with running(mode, folder, var_dir, options.database_url) as site:
        send(site, bodies(records, 1), 1, 0.0, 0.0, requests=3)
        points = []
        for size in SIZES:
            for clients in options.clients:
                points.append(measure_point(site, bodies(records, size), clients, size, options.seconds))
                console.print(f"{mode}: {points[-1]}", markup=False)
        turns = take_turns(site, folder, listed, bodies(records, 1))
    engines.append(engine_alone(folder, listed, options.seconds))
    mean = Engine(*np.mean([astuple(engine) for engine in engines], axis=0).tolist())
    database = "SQLite" if options.database_url is None else "Postgres"
    return Report(mode, database, mean, tuple(points), tuple(turns), os.getloadavg()[0])


def take_turns(site: Site, folder: Path, listed: Path, texts: list[str]) -> list[Turn]:
    """Each record by the engine alone, and right after it by one client of the service: one pace, one moment."""
    turns = []
    command = [sys.executable, "-m", "benchmarks.service.engine", str(folder), str(listed), TARGET]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ONE_THREAD, text=True) as engine,
        closing(OneClient(site.url, site.key)) as client,
    ):
        assert engine.stdin is not None and engine.stdout is not None
        for turn in range(TURNS):
            engine.stdin.write(f"{turn}\n")
            engine.stdin.flush()
            turns.append(Turn(float(engine.stdout.readline()), client.milliseconds(texts[turn % len(texts)])))
        engine.stdin.close()
    return turns[WARM_UP:]


def engine_alone(folder: Path, listed: Path, seconds: float) -> Engine:
    command = [sys.executable, "-m", "benchmarks.service.engine", str(folder), str(listed), TARGET, str(seconds)]
    found = subprocess.run(command, check=True, capture_output=True, env=ONE_THREAD)
    return Engine(**json.loads(found.stdout))


def send(site: Site, texts: list[str], clients: int, warm_up: float, seconds: float, requests: int = 0) -> Measured:
    load = Load(site.url, site.key, texts, clients, warm_up, seconds, requests)
    command = [sys.executable, "-m", "benchmarks.service.load"]
    found = subprocess.run(command, input=json.dumps(asdict(load)).encode(), check=True, capture_output=True)
    return Measured(**json.loads(found.stdout))


def measure_point(site: Site, texts: list[str], clients: int, size: int, seconds: float) -> Point:
    """One load, and what the serving processes did meanwhile."""
    before, cpu_before, began = _searches(site), sum(map(processor_seconds, site.pids)), time.perf_counter()
    found = send(site, texts, clients, min(2.0, seconds / 4), seconds)
    wall, cpu = time.perf_counter() - began, sum(map(processor_seconds, site.pids)) - cpu_before
    searched, count, busy = (after - earlier for after, earlier in zip(_searches(site), before, strict=True))
    p50, p95, p99 = np.percentile(found.latencies or [float("nan")], [50, 95, 99]).tolist()
    return Point(
        clients=clients,
        records=size,
        requests=len(found.latencies),
        records_a_second=len(found.latencies) * size / found.seconds,
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        failures=found.failures,
        batch=searched / max(1.0, count),
        engine=busy / found.whole,
        engine_ms_a_record=1000 * busy / max(1.0, searched),
        cpu=cpu / wall,
        cpu_ms_a_record=1000 * cpu / max(1.0, searched),
    )


def soak_mode(
    mode: Mode,
    folder: Path,
    records: list[dict[str, object]],
    var_dir: Path,
    options: argparse.Namespace,
    console: Console,
) -> Soak:
    """So many records, and the memory every second."""
    var_dir.mkdir()
    done, seen = Event(), list[tuple[float, float]]()
    with running(mode, folder, var_dir, options.database_url) as site:
        send(site, bodies(records, SOAK_RECORDS), 1, 0.0, 0.0, requests=3)

        def watch() -> None:
            while not done.wait(1.0):
                seen.append((_searches(site)[0], _resident_mb(site)))

        watcher = Thread(target=watch)
        watcher.start()
        try:
            texts = bodies(records, SOAK_RECORDS)
            found = send(site, texts, SOAK_CLIENTS, 0.0, 0.0, requests=-(-options.soak // SOAK_RECORDS))
        finally:
            done.set()
            watcher.join()
    soak = soak_of(mode, seen, len(found.latencies) * SOAK_RECORDS, found.whole, found.failures)
    console.print(f"{soak}, growth {soak.growth:.1%}", markup=False)
    return soak


def _searches(site: Site) -> tuple[float, float, float]:
    """Records searched, searches, and their seconds, since the explainer started."""
    text = httpx.get(site.metrics_url, headers={"Authorization": f"Bearer {site.key}"}, timeout=60).text
    names = ("recourse_batch_records_sum", "recourse_batch_records_count", "recourse_batch_seconds_sum")
    found = [re.search(rf"^{name} (\S+)$", text, re.MULTILINE) for name in names]
    records, count, seconds = (0.0 if one is None else float(one[1]) for one in found)
    return records, count, seconds


def _resident_mb(site: Site) -> float:
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in site.pids]
    return sum(int(text.partition("VmRSS:")[2].split()[0]) for text in texts) / 1024


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--mode", dest="modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--model", type=Path, help="a folder that `recourse train loans` made; else one is trained")
    parser.add_argument("--effort", type=float, default=0.1, help="of the training")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load")
    parser.add_argument("--clients", type=int, nargs="+", default=list(CLIENTS))
    parser.add_argument("--database-url", help="an empty Postgres database; by default SQLite")
    parser.add_argument("--soak", type=int, default=0, metavar="RECORDS", help="explain so many, watch the memory")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
