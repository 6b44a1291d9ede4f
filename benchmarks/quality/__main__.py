"""The paper's table of cost and validity, on its data sets, beside the oracle: `python -m benchmarks.quality`.

What is finished stays in benchmarks/results/quality.json and is not run again; what was trained stays in
benchmarks/cache/. The public data sets are read from the folder that RECOURSE_DATA names.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console

from benchmarks.quality.report import draw_picture, write_report
from benchmarks.quality.run import parse_seeds, run_job
from benchmarks.quality.summary import Job, Outcome, Store
from benchmarks.store import CACHE, RESULTS, Places, write_whole
from models.errors import RecourseError
from models.evaluation.evaluation import PUBLISHED

REPORT_FILE, PICTURE_FILE = "QUALITY.md", "quality.png"

Run = Callable[[Job], Outcome]
Ended = tuple[Job, Outcome | RecourseError]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is not finished, write the report and the picture; 1 where a run failed, else 0."""
    options = _parser().parse_args(arguments)
    jobs = [Job(name, seed, options.ensemble, options.records) for seed in options.seeds for name in options.datasets]
    places = Places.of(options.cache)
    # Each worker keeps to one core; the linear algebra reads this when a worker starts.
    os.environ["OMP_NUM_THREADS"] = "1"
    store = Store(options.results)
    console = Console(stderr=True, soft_wrap=True)
    failures = complete(
        jobs, store, partial(in_workers, partial(run_job, places=places), options.workers), console, options.fresh
    )
    if store.qualities:
        write_whole(options.results / REPORT_FILE, write_report(store.qualities, store.frontier))
        draw_picture(store.qualities, store.frontier, options.results / PICTURE_FILE)
    return 1 if failures else 0


def complete(
    jobs: Sequence[Job],
    store: Store,
    run_all: Callable[[Sequence[Job]], Iterator[Ended]],
    console: Console,
    fresh: bool,
) -> int:
    """Run the jobs that are not finished and keep each outcome as it comes -> how many failed"""
    waiting = [job for job in jobs if fresh or not store.finished(job)]
    console.print(f"{len(jobs) - len(waiting)} of {len(jobs)} runs are finished.")
    failures = 0
    for job, outcome in run_all(waiting):
        if isinstance(outcome, RecourseError):
            failures += 1
            console.print(f"{job.dataset}, seed {job.seed}: {outcome}", markup=False)
            continue
        store.put(job, outcome)
        figures = "; ".join(f"{each.method} {each.validity:.3f} @ {each.cost:.3f}" for each in outcome.qualities)
        console.print(f"{job.dataset}, seed {job.seed}: {figures}", markup=False)
    return failures


def in_workers(run: Run, workers: int, jobs: Sequence[Job]) -> Iterator[Ended]:
    """Each job in a process of its own kind, `workers` at a time; an error that is ours to explain is an outcome."""
    with ProcessPoolExecutor(max_workers=workers, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(run, job): job for job in jobs}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except RecourseError as error:
                yield futures[future], error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(PUBLISHED), metavar="NAME")
    parser.add_argument("--seeds", type=parse_seeds, default=parse_seeds("0-4"), metavar="0-4")
    parser.add_argument("--records", type=int, default=4000, help="test records to explain in each run")
    parser.add_argument("--ensemble", choices=("quick", "tuned"), default="quick")
    parser.add_argument("--workers", type=int, choices=range(1, (os.cpu_count() or 1) + 1), default=1)
    parser.add_argument("--fresh", action="store_true", help="run again what is finished")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
