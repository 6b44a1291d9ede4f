"""What each part of the engine is worth: `python -m benchmarks.ablation` takes them away, one at a time.

`--greedy` then takes them away together, as long as nothing is lost. What is finished stays in
benchmarks/results/ablation.json and is not run again; trainings are shared through benchmarks/cache/. A part is idle if
no figure falls by more than one standard deviation over the seeds without it, and no time grows by more than half.
"""

import argparse
import ast
import io
import sys
import time
import tokenize
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from rich.console import Console

from benchmarks.experiments.answers import Answers, answer, figures
from benchmarks.experiments.bench import Bench, Settings
from benchmarks.experiments.tables import markdown_table
from benchmarks.quality.run import parse_seeds
from benchmarks.store import CACHE, RESULTS, Places, Row, RowFile, write_whole
from models.config import Config, SearchConfig
from models.errors import RecourseError
from models.model import RecourseModel
from models.search.scoring import score_points, typicality

ROOT = Path(__file__).parents[1]
DATASETS = ("heloc", "compas", "adult", "chessboard")
KEY = ("dataset", "seed", "part", "effort", "records")
WHOLE, TOGETHER = "nothing", " + "
OBJECTIVE_WEIGHT = 0.3
"""The cost weight of the objective that is compared: votes less so much times the cost."""
HELD_AT_ONE = 1e9
"""So strong a prior leaves the calibrated votes as they are."""
ALONE = 20
"""So many records are explained one at a time, for their milliseconds."""
HIGHER = ("validity", "verified_validity", "unanimity", "objective", "typicality", "a", "b", "c", "d", "e")
LOWER = ("cost", "verified_cost", "lof", "isoforest")
TIMES = ("train_seconds", "ms", "ms_alone", "verified_ms")
SHOWN = (*HIGHER[:5], *LOWER, *HIGHER[5:], *TIMES)

Change: TypeAlias = Callable[[Config], Config | None]
"""Our configuration -> the same without the part; None where the configuration has no such switch"""


@dataclass(frozen=True, slots=True)
class Part:
    """A part that can be taken away.

    code     the files that would go, or "file:function function" of a file that stays
    without  how the configuration says so
    trained  whether another model is trained without it; else the model stays and only its search changes
    """

    code: tuple[str, ...]
    without: Change
    trained: bool = True

    @property
    def lines(self) -> int:
        """Lines of code, without docstrings, comments and blanks."""
        return sum(code_lines(*each.partition(":")[::2]) for each in self.code)


def switch(**settings: object) -> Change:
    """The configuration with these settings, by their paths: switch(search__use_anchors=False)"""

    def without(config: Config) -> Config | None:
        changed: Config | None = config
        for path, value in settings.items():
            changed = None if changed is None else _with(changed, path.split("__"), value)
        return changed

    return without


def _with(config: Config, path: Sequence[str], value: object) -> Config | None:
    """Replace one setting in a tree of dataclasses; None where there is no such setting"""
    owners: list[object] = [config]
    for name in path[:-1]:
        owners.append(getattr(owners[-1], name, None))
    if not is_dataclass(owners[-1]) or path[-1] not in {each.name for each in fields(owners[-1])}:
        return None
    for owner, name in zip(reversed(owners), reversed(path), strict=True):
        assert is_dataclass(owner) and not isinstance(owner, type)
        value = replace(owner, **{name: value})
    assert isinstance(value, Config)
    return value


PARTS: Mapping[str, Part] = {
    "jury": Part(
        (
            "models/training/jury.py",
            "models/training/residual_ridge.py",
            "models/training/pseudo_labels.py:PseudoLabels",
        ),
        switch(surrogate__jury=False),
    ),
    "resampled jurors": Part(("models/training/jury.py:draw_rows",), switch(jury__draws=1, jury__share=1.0)),
    "residual ridge": Part(("models/training/residual_ridge.py",), switch(residuals__enabled=False)),
    "calibration": Part(
        ("models/training/surrogate_trainer.py:fit_calibration",), switch(surrogate__calibration_prior=HELD_AT_ONE)
    ),
    "anchors": Part(("models/space/anchors.py",), switch(search__use_anchors=False), trained=False),
    "other candidates": Part(
        ("models/search/verification.py:_most_agreed try_in_turn",),
        switch(search__verification__fallbacks=0),
        trained=False,
    ),
}
"""What may go, by name. The paper's own parts, feature selection, batch independence, checkpoints and the trajectory
are not up for deletion; density proxies, solvers and the exhaustive pairs are not on the way of a default answer."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is not finished, write the page; 1 where a run failed, else 0."""
    options = _parser().parse_args(arguments)
    console, store = Console(stderr=True, soft_wrap=True), RowFile(options.results / "ablation.json", KEY)
    settings = Settings(records=options.records, effort=options.effort, members=tuple(options.members))
    settings = settings if options.members else replace(settings, members=Settings().members)
    failures, places = 0, Places.of(options.cache)
    for dataset in options.datasets:
        for seed in options.seeds:
            bench = Bench(dataset, seed, settings, places)
            for name in (WHOLE, *options.parts):
                failures += _run(bench, (name,), store, options.fresh, console)
    if options.greedy:
        failures += _take_together(options, settings, places, store, console)
    write_whole(options.results / "ABLATION.md", write_page(store.rows))
    return 1 if failures else 0


def _run(bench: Bench, names: tuple[str, ...], store: RowFile, fresh: bool, console: Console) -> int:
    """One run, unless it is finished or there is nothing to switch; 1 where it failed"""
    place = row_key(bench, names)
    if not fresh and store.has(place):
        return 0
    try:
        row = measure(bench, names)
    except RecourseError as error:
        console.print(f"{place}: {error}", markup=False)
        return 1
    if row is not None:
        store.put([row])
        console.print(f"{place}: " + ", ".join(f"{key} {row[key]:.3f}" for key in SHOWN if key in row), markup=False)
    return 0


def row_key(bench: Bench, names: Sequence[str]) -> Row:
    settings = bench.settings
    place = (bench.dataset, bench.seed, TOGETHER.join(names), settings.effort, settings.records)
    return dict(zip(KEY, place, strict=True))


def measure(bench: Bench, names: Sequence[str]) -> Row | None:
    """One row: the figures without these parts; None where one of them has no switch.

    Survival on models that nobody asked (benchmarks/survival) adds its keys a, b, c, d and e to the same row.
    """
    parts = [PARTS[name] for name in names if name != WHOLE]
    trained = _without([part for part in parts if part.trained], bench.config)
    if trained is None or _without(parts, bench.config) is None:
        return None
    model, seconds = bench.model(trained)
    config = _without([part for part in parts if not part.trained], model.config)
    assert config is not None
    lines = sum(part.lines for part in parts)
    figures = _figures(bench, replace(model, config=config))
    return row_key(bench, names) | figures | {"train_seconds": seconds, "lines": lines}


def _without(parts: Iterable[Part], config: Config) -> Config | None:
    changed: Config | None = config
    for part in parts:
        changed = None if changed is None else part.without(changed)
    return changed


def _figures(bench: Bench, model: RecourseModel) -> Row:
    """Surrogate answers at the paper's cost, verified answers, the objective, and the milliseconds of both."""
    reference, _ = bench.model()
    surrogate = answer(bench, model, bench.search(model))
    verified = answer(bench, model, SearchConfig(max_queries=10, min_agreement=1.0, seed=bench.seed))
    weighed = SearchConfig(cost_weight=OBJECTIVE_WEIGHT, min_expected_agreement=0.0, seed=bench.seed)
    free, asked, traded = (figures(bench, each) for each in (surrogate, verified, answer(bench, model, weighed)))
    return {
        **{name: free[name] for name in ("validity", "cost", "changed", "lof", "isoforest")},
        "typicality": _typicality(reference, surrogate),
        "objective": traded["validity"] - OBJECTIVE_WEIGHT * traded["cost"],
        "verified_validity": asked["validity"],
        "unanimity": asked["unanimity"],
        "verified_cost": asked["cost"],
        "queries": (asked["queries"] - model.queries) / len(bench.cases),
        "ms": free["explain ms"],
        "verified_ms": asked["explain ms"],
        "ms_alone": _alone(bench, model),
    }


def _typicality(model: RecourseModel, answers: Answers) -> float:
    """The mean share of real records that lie less densely than the answers, for the whole engine's own density"""
    target = answers.cases.target
    density = score_points(model, model.encoder.encode(answers.records), target).density
    shares = [typicality(model, int(code), score) or 0.0 for code, score in zip(target, density, strict=True)]
    return float(np.mean(shares))


def _alone(bench: Bench, model: RecourseModel) -> float:
    """The median milliseconds of the processor of one record alone"""
    spent = []
    for row in range(min(ALONE, len(bench.cases))):
        one = replace(bench.cases, records=bench.cases.records[[row]], target=bench.cases.target[[row]])
        started = time.process_time()
        answer(bench, model, SearchConfig(seed=bench.seed), one)
        spent.append(1000 * (time.process_time() - started))
    return float(np.median(spent))


def _take_together(
    options: argparse.Namespace, settings: Settings, places: Places, store: RowFile, console: Console
) -> int:
    """From the largest part on: each stays away if nothing is lost without it and those that went before"""
    idle = [name for name in options.parts if not losses(store.rows, name) and _measured(store.rows, name)]
    gone: tuple[str, ...] = ()
    failures = 0
    for name in sorted(idle, key=lambda each: -PARTS[each].lines):
        names = (*gone, name)
        for dataset in options.datasets:
            for seed in options.seeds:
                bench = Bench(dataset, seed, settings, places)
                failures += _run(bench, names, store, options.fresh, console)
        if not losses(store.rows, TOGETHER.join(names)):
            gone = names
    return failures


def losses(rows: Sequence[Row], part: str) -> list[str]:
    """What is lost without the part, as sentences: means over data sets and seeds, beside the deviation over seeds"""
    whole, without = _measured(rows, WHOLE), _measured(rows, part)
    pairs = [(whole[place], without[place]) for place in whole if place in without]
    found = []
    for figure in (*HIGHER, *LOWER):
        both = [(one[figure], other[figure]) for one, other in pairs if figure in one and figure in other]
        worse = np.mean([one - other for one, other in both] or [0.0]) * (1 if figure in HIGHER else -1)
        if worse > _deviation(whole.values(), figure):
            found.append(f"{figure} is {worse:.3f} worse")
    for figure in TIMES:
        ratio = np.mean([other[figure] / max(one[figure], 1e-9) for one, other in pairs] or [1.0])
        if ratio > 1.5:
            found.append(f"{figure} is {ratio:.1f} times as long")
    return found


def _measured(rows: Sequence[Row], part: str) -> dict[tuple[object, ...], Row]:
    return {tuple(row[key] for key in KEY if key != "part"): row for row in rows if row["part"] == part}


def _deviation(rows: Iterable[Row], figure: str) -> float:
    """The standard deviation over the seeds, pooled over the data sets"""
    groups: dict[object, list[float]] = {}
    for row in rows:
        if figure in row:
            groups.setdefault(row["dataset"], []).append(row[figure])
    variances = [float(np.var(values, ddof=1)) for values in groups.values() if len(values) > 1]
    return float(np.sqrt(np.mean(variances))) if variances else 0.0


def write_page(rows: Sequence[Row]) -> str:
    """ABLATION.md: the verdict on each part, then the figures of every data set."""
    taken = list(dict.fromkeys(row["part"] for row in rows if row["part"] != WHOLE))
    verdicts = [("without", "lines of code", "verdict")]
    for name in taken:
        lines = next(row["lines"] for row in rows if row["part"] == name)
        verdicts.append((name, str(lines), "; ".join(losses(rows, name)) or "idle: nothing is lost"))
    missing = [name for name in PARTS if name not in taken]
    page = f"# What each part is worth\n\n{(__doc__ or '').partition(chr(10))[2].strip()}\n"
    page += "\nWritten by `python -m benchmarks.ablation` from ablation.json; do not edit.\n"
    page += "\nValidity and cost of surrogate answers are those at the paper's cost; the objective is votes less "
    page += f"{OBJECTIVE_WEIGHT} times the cost; verified answers had ten queries.\n"
    page += markdown_table(verdicts)
    if missing:
        page += f"\nNot run, or without a switch: {', '.join(missing)}.\n"
    page += "\nWhat was taken away for good, and what it had been worth: docs/decisions/engine-parts.md.\n"
    return page + "".join(_dataset_table(rows, name) for name in dict.fromkeys(row["dataset"] for row in rows))


def _dataset_table(rows: Sequence[Row], dataset: str) -> str:
    own = [row for row in rows if row["dataset"] == dataset]
    names = [name for name in SHOWN if any(name in row for row in own)]
    lines = [("without", "seeds", *(name.replace("_", " ") for name in names))]
    for part in dict.fromkeys(row["part"] for row in own):
        same = [row for row in own if row["part"] == part]
        means = (f"{np.mean([row[name] for row in same if name in row] or [np.nan]):.3f}" for name in names)
        lines.append((part, str(len(same)), *means))
    return f"\n## {dataset}\n{markdown_table(lines)}"


def code_lines(path: str, names: str = "") -> int:
    """Lines of code of a file of the project, or of some of its functions and methods; 0 where it is gone"""
    file = ROOT / path
    if not file.exists():
        return 0
    text = file.read_text()
    tree, inside = ast.parse(text), set[int]()
    for node in ast.walk(tree) if names else tree.body:
        if isinstance(node, ast.stmt) and (not names or getattr(node, "name", None) in names.split()):
            inside |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return len((inside & _token_lines(text)) - _docstring_lines(tree))


def _token_lines(text: str) -> set[int]:
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {line for token in tokens if token.type not in silent for line in range(token.start[0], token.end[0] + 1)}


def _docstring_lines(tree: ast.AST) -> set[int]:
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    alone = (text for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str))
    return {line for text in alone for line in range(text.lineno, (text.end_lineno or 0) + 1)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), metavar="NAME")
    parser.add_argument("--seeds", type=parse_seeds, default=parse_seeds("0-1"), metavar="0-1")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS), metavar="PART")
    parser.add_argument("--records", type=int, default=100, help="test records to explain in each run")
    parser.add_argument("--effort", type=float, default=1.0, help="of the trainings")
    parser.add_argument("--members", nargs="+", default=[], metavar="MEMBER", help="by default all seven")
    parser.add_argument("--greedy", action="store_true", help="then take away together what is not missed alone")
    parser.add_argument("--fresh", action="store_true", help="run again what is finished")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
