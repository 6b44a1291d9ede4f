"""How soon `fast` trains to the validity of `paper`, and how fast the search is: `python -m benchmarks.speed`.

Everything is measured on one core of one machine. The public data sets are read from the folder that RECOURSE_DATA
names; ensembles and models that were trained before, and what `paper` came to, which takes two hours, are taken from
benchmarks/cache/. Only the trainings of `fast` that race against `paper` are always run again.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from benchmarks.quality.cache import TrainingCache
from benchmarks.quality.summary import Job
from benchmarks.speed.report import Latency, Race, Throughput, figures_of, write_report
from benchmarks.speed.search import latency, throughput
from benchmarks.speed.training import Judge, kept_paper, race, run_paper
from benchmarks.store import CACHE, RESULTS, Places, write_rows, write_whole
from models.config import fast, paper
from models.datasets import load
from models.datasets.dataset import Splits, split_dataset
from models.ensemble.recipes import MEMBER_NAMES
from models.evaluation.evaluation import Cases, choose_cases
from models.model import RecourseModel

EFFORTS = (0.05, 0.1, 0.25, 0.5, 1.0)
PAPER_SHARES = {"spirals": 1.0, "heloc": 0.15}
"""The share of its epochs that `paper` runs, to the end of its decay: all of them take four hours on HELOC."""
OTHER_SHARE = 0.02
ALONE_ONLY = "loans"
"""The data set of many kinds of features, on which only one record alone is timed."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: the share of `paper`, test records judged, records in a batch, alone, repeats.

    efforts: the shares of `fast` that race; searched: the share of it that trains the model whose search is timed
    """

    paper_share: float | None = None
    efforts: tuple[float, ...] = EFFORTS
    searched: float = 1.0
    judged: int = 100
    batch: int = 256
    alone: int = 16
    repeats: int = 6
    latency: int = 60


QUICK = Scale(paper_share=0.002, efforts=(0.02,), searched=0.02, judged=20, batch=32, alone=2, repeats=1, latency=6)


@dataclass(frozen=True, eq=False)
class Stage:
    """One data set, made ready, with the model whose search is timed."""

    name: str
    study: Splits
    judge: Judge
    model: RecourseModel


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then write speed.json and SPEED.md."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    console = Console(stderr=True, soft_wrap=True)
    scale = QUICK if options.quick else Scale(paper_share=options.paper_share)
    load_before = os.getloadavg()[0]
    races, throughputs, latencies = list[Race](), list[Throughput](), list[Latency]()
    for name in options.datasets:
        stage = prepare(name, options.cache, options.members, scale)
        share = scale.paper_share or PAPER_SHARES.get(name, OTHER_SHARE)
        run = partial(run_paper, stage.study, stage.judge, paper(), share, seed=0)
        rival = kept_paper(options.cache, name, run, share)
        if options.paper_only:
            continue
        races.append(race(name, stage.study, stage.judge, rival, scale.efforts, seed=0))
        console.print(f"{name}: {races[-1]}", markup=False)
        cases = _repeated(stage.judge.cases, scale)
        throughputs.append(throughput(name, stage.model, rival.model, cases, scale.alone, scale.repeats))
        console.print(f"{name}: {throughputs[-1]}", markup=False)
        latencies.append(latency(name, stage.model, stage.judge.cases.first(scale.latency)))
        console.print(f"{name}: {latencies[-1]}", markup=False)
    if options.paper_only:
        return 0
    mixed = prepare(ALONE_ONLY, options.cache, options.members, scale)
    latencies.append(latency(ALONE_ONLY, mixed.model, mixed.judge.cases.first(scale.latency)))
    loads = f"{load_before:.1f} at the start and {os.getloadavg()[0]:.1f} at the end"
    busy = f"load average {loads}, on {os.cpu_count()} cores"
    figures = figures_of(races, throughputs, latencies, busy)
    write_rows(options.results / "speed.json", map(asdict, figures))
    write_whole(options.results / "SPEED.md", write_report(races, throughputs, latencies, busy))
    return 0


def prepare(name: str, cache: Path, members: Sequence[str], scale: Scale) -> Stage:
    """The study of seed 0, its `quick` ensemble, the test records that all of its models classify correctly; `fast`"""
    places = Places.of(cache)
    study = split_dataset(load(name, places.data, seed=0), 0)
    trained, job = TrainingCache(cache, members), Job(name, 0, "quick", scale.judged)
    ensemble = trained.ensemble(job, study)
    model, _ = trained.model(job, study, ensemble, fast().scaled(scale.searched))
    return Stage(name, study, Judge(ensemble, choose_cases(ensemble, study.test, scale.judged, 0)), model)


def _repeated(cases: Cases, scale: Scale) -> Cases:
    """As many cases as the batch holds; they come again where there are too few."""
    rows = [row % len(cases) for row in range(scale.batch)]
    return Cases(cases.records[rows], cases.target[rows])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--paper-share", type=float, help="the share of its epochs that `paper` runs")
    parser.add_argument("--paper-only", action="store_true", help="run and keep the long part, and nothing else")
    parser.add_argument("--datasets", nargs="+", default=["spirals", "heloc"], metavar="NAME")
    parser.add_argument("--members", nargs="+", default=list(MEMBER_NAMES), metavar="MEMBER")
    parser.add_argument("--quick", action="store_true", help="a run of seconds that only shows that everything works")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
