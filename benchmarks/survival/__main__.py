"""Survival of every method's answers on models that nobody asked: `python -m benchmarks.survival`.

What is finished stays in benchmarks/results/survival.json and is not run again; ensembles, models and the figures of
each record stay in benchmarks/cache/, so that a further method costs minutes. The public data sets are read from the
folder that RECOURSE_DATA names. `--report` only writes the page and the picture again.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.quality.run import parse_seeds
from benchmarks.store import CACHE, RESULTS, Places, Row, RowFile, write_whole
from benchmarks.survival.figures import GROUPS, KEY, keep_records, measure
from benchmarks.survival.material import DATASETS, RULES, Material, Settings
from benchmarks.survival.methods import METHODS
from benchmarks.survival.report import draw_picture, write_page
from models.config import Config
from models.ensemble.recipes import MEMBER_NAMES
from models.errors import RecourseError
from models.evaluation.survival import Group


def main(arguments: Sequence[str] | None = None, base: Config | None = None) -> int:
    """Measure what is not finished, write the page and the picture; 1 where a run failed, else 0."""
    options = _parser().parse_args(arguments)
    console, store = Console(stderr=True, soft_wrap=True), RowFile(options.results / "survival.json", KEY)
    settings = Settings(options.records, options.effort, options.ensembles, tuple(options.members), options.one, base)
    groups = RowFile(options.results / "survival-groups.json", ("dataset", "seed", "group"))
    failures, places = 0, Places.of(options.cache)
    if not options.report:
        for seed in options.seeds:
            for dataset in options.datasets:
                for rules in options.rules:
                    material = Material(dataset, seed, rules, settings, places)
                    failures += run_methods(material, options.methods, store, groups, options.fresh, console)
    if store.rows:
        write_whole(options.results / "SURVIVAL.md", write_page(store.rows, groups.rows, options.cache))
        draw_picture(store.rows, options.results / "survival.png")
    return 1 if failures else 0


def run_methods(
    material: Material, methods: Sequence[str], store: RowFile, groups: RowFile, fresh: bool, console: Console
) -> int:
    """Every method that is not finished; a method that fails is said, and the others count. -> how many failed"""
    failures = 0
    place = {"dataset": material.dataset, "seed": material.seed, "rules": material.rules}
    waiting = [name for name in methods if fresh or not store.has(place | {"method": name})]
    for name in waiting:
        began, worked = time.monotonic(), time.process_time()
        try:
            row, each = measure(material, name)
        except RecourseError as error:
            failures += 1
            console.print(f"{place} {name}: {error}", markup=False)
            continue
        keep_records(material.places.cache, row, each)
        store.put([row])
        shown = ", ".join(f"{key} {row[key]:.3f}" for key in ("cost", "asked", *GROUPS) if row[key] is not None)
        took = f"{time.monotonic() - began:.0f} s by the clock, {time.process_time() - worked:.0f} s of the processor"
        console.print(f"{' '.join(map(str, place.values()))} {name}: {shown} ({took})", markup=False)
    if failures < len(waiting):
        groups.put([_group_row(material, group) for group in material.groups.values()])
    return failures


def _group_row(material: Material, group: Group) -> Row:
    place = {"dataset": material.dataset, "seed": material.seed, "group": group.name}
    return place | {"size": group.size, "fell_out": "; ".join(group.fell_out)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.survival", description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), metavar="NAME")
    parser.add_argument("--seeds", type=parse_seeds, default=parse_seeds("0-4"), metavar="0-4")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="METHOD")
    parser.add_argument("--rules", nargs="+", default=["none"], choices=RULES)
    parser.add_argument("--records", type=int, default=100, help="refused test records that every method answers")
    parser.add_argument("--ensembles", type=int, default=3, help="in each of the groups a, b, c and e")
    parser.add_argument("--effort", type=float, default=1.0, help="of the trainings")
    parser.add_argument("--members", nargs="+", default=list(MEMBER_NAMES), metavar="MEMBER")
    parser.add_argument("--one", default="mlp", help="the asked model of the methods that ask one", metavar="MEMBER")
    parser.add_argument("--fresh", action="store_true", help="run again what is finished")
    parser.add_argument("--report", action="store_true", help="only write the page and the picture")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
