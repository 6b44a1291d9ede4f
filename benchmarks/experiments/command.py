"""`python -m benchmarks.experiments NAME`: run what is not finished, keep each run, write the table and the picture."""

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console

from benchmarks.experiments import disagreement, paths, sex, spearman, surface, table2
from benchmarks.experiments.bench import Bench, Settings, quick_settings
from benchmarks.experiments.experiment import (
    Experiment,
    Measured,
    Rows,
    add_time,
    forget_time,
    results_folder,
    write_rows,
)
from benchmarks.experiments.sweeps import READINGS, SWEEPS
from benchmarks.experiments.tables import how_it_ran, write_page
from benchmarks.quality.run import parse_seeds
from benchmarks.store import CACHE, RESULTS, Places, write_whole
from models.errors import RecourseError

CATALOGUE = {
    experiment.name: experiment
    for experiment in (
        table2.EXPERIMENT,
        *READINGS,
        paths.TRAJECTORIES,
        paths.AGREEMENT,
        disagreement.EXPERIMENT,
        spearman.EXPERIMENT,
        surface.EXPERIMENT,
        sex.EXPERIMENT,
        *SWEEPS,
    )
}
"""Every experiment by its name, in the order of the report; those that train nothing of their own come first."""
NAMES = tuple(CATALOGUE)


@dataclass(frozen=True, slots=True)
class Unit:
    """The variants of one experiment that one data set and seed still lack; they share what is trained."""

    experiment: str
    dataset: str
    seed: int
    variants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one variant."""

    unit: Unit
    variant: str
    result: Measured | RecourseError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one experiment; 1 where a run failed, else 0"""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.experiments", description=__doc__)
    parser.add_argument("name", choices=CATALOGUE, metavar="NAME", help=f"of {', '.join(NAMES)}")
    add_options(parser)
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help="instead of the experiment's own")
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="instead of all of the experiment's own")
    options = parser.parse_args(arguments)
    experiment = find_experiment(options.name)
    if unknown := sorted(set(options.variants or ()) - set(experiment.full.variants)):
        parser.error(f"there is no variant '{unknown[0]}'; the variants are {', '.join(experiment.full.variants)}")
    return run_experiment(experiment, options, options.datasets, options.variants)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=parse_seeds, metavar="0-4", help="default 0-4, with --quick 0")
    parser.add_argument("--quick", action="store_true", help="few records, a training cut short, fewer data sets")
    parser.add_argument("--records", type=int, help="test records to explain in each run")
    parser.add_argument("--workers", type=int, choices=range(1, (os.cpu_count() or 1) + 1), default=1)
    parser.add_argument("--fresh", action="store_true", help="run again what is finished")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=CACHE)


def run_experiment(
    experiment: Experiment,
    options: argparse.Namespace,
    datasets: Sequence[str] | None = None,
    variants: Sequence[str] | None = None,
) -> int:
    # Each worker keeps to one core; the linear algebra reads this when a worker starts.
    os.environ["OMP_NUM_THREADS"] = "1"
    console = Console(stderr=True, soft_wrap=True)
    scope = experiment.scope(options.quick)
    seeds = options.seeds or parse_seeds("0" if options.quick else "0-4")
    folder = results_folder(options.results, options.quick)
    store = Rows(folder, experiment.owner)
    wanted = [(name, seed, tuple(variants or scope.variants)) for seed in seeds for name in datasets or scope.datasets]
    units = [_lacking(experiment, store, *each, options.fresh) for each in wanted]
    console.print(f"{experiment.name}: {sum(not unit.variants for unit in units)} of {len(units)} runs are finished.")
    failures, began = 0, time.monotonic()
    if options.fresh:
        forget_time(folder, experiment.name)
    places = Places.of(options.cache)
    for outcome in in_workers([unit for unit in units if unit.variants], settings_of(options), places, options.workers):
        failures += _keep(outcome, store, console)
        add_time(folder, experiment.name, time.monotonic() - began, options.workers)
        began = time.monotonic()
    publish(experiment, store, folder, options.quick)
    return 1 if failures else 0


def settings_of(options: argparse.Namespace) -> Settings:
    settings = quick_settings() if options.quick else Settings()
    return replace(settings, records=options.records) if options.records else settings


def publish(experiment: Experiment, store: Rows, folder: Path, quick: bool) -> None:
    """The page and the picture; an experiment that takes its runs from another writes its own rows too"""
    rows = experiment.rows(store.rows)
    if not rows:
        return
    if experiment.source is not None:
        write_rows(folder / f"{experiment.name}.json", rows)
    write_whole(folder / f"{experiment.name}.md", write_page(experiment, rows, how_it_ran(experiment, rows, quick)))
    experiment.draw(rows, folder / f"{experiment.name}.png")


def find_experiment(name: str) -> Experiment:
    return CATALOGUE[name]


def in_workers(units: Sequence[Unit], settings: Settings, places: Places, workers: int) -> Iterator[Outcome]:
    """Units side by side. One variant of a unit runs at a time, so that nothing is trained twice at once."""
    if workers == 1:
        for unit in units:
            yield from run_unit(unit, settings, places)
        return
    with ProcessPoolExecutor(max_workers=workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_run_first, unit, settings, places): unit for unit in units}
        while running:
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                unit = running.pop(future)
                rest = replace(unit, variants=unit.variants[1:])
                if rest.variants:
                    running[pool.submit(_run_first, rest, settings, places)] = rest
                yield future.result()


def run_unit(unit: Unit, settings: Settings, places: Places) -> Iterator[Outcome]:
    """Each variant in turn; an error that is ours to explain is an outcome"""
    experiment, bench = find_experiment(unit.experiment), Bench(unit.dataset, unit.seed, settings, places)
    for variant in unit.variants:
        try:
            yield Outcome(unit, variant, experiment.run(bench, variant))
        except RecourseError as error:
            yield Outcome(unit, variant, error)


def _run_first(unit: Unit, settings: Settings, places: Places) -> Outcome:
    return next(run_unit(unit, settings, places))


def _lacking(
    experiment: Experiment, store: Rows, dataset: str, seed: int, variants: tuple[str, ...], fresh: bool
) -> Unit:
    missing = tuple(each for each in variants if fresh or not store.finished(dataset, seed, each))
    return Unit(experiment.name, dataset, seed, missing)


def _keep(outcome: Outcome, store: Rows, console: Console) -> int:
    """Keep what was measured and say so; 1 for a failure"""
    unit, result = outcome.unit, outcome.result
    place = f"{unit.experiment}: {unit.dataset}, seed {unit.seed}, {outcome.variant}"
    if isinstance(result, RecourseError):
        console.print(f"{place}: {result}", markup=False)
        return 1
    store.put(unit.dataset, unit.seed, outcome.variant, result)
    shown = ", ".join(f"{name} {value:.3f}" for name, value in list(result.values.items())[:6])
    console.print(f"{place}: {shown}", markup=False)
    return 0
