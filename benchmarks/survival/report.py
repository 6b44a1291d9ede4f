"""SURVIVAL.md and survival.png: the share of other models that accept, beside what the answers cost."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.experiments.tables import markdown_table
from benchmarks.store import Row
from benchmarks.survival.figures import CEILING, GROUPS, KEY, read_records
from benchmarks.survival.intervals import Interval, Run, interval
from models.arrays import Floats

BASE = "verified-10"
"""The method whose cost is 1."""
NEAR = ("a", "b", "c", "d")
Read: TypeAlias = Callable[[Row], Mapping[str, Floats] | None]
"""A row -> the figures of each of its records, None where the cache has them no more"""
COLUMNS = (
    "answered",
    "asked",
    *GROUPS,
    *(f"all_{name}" for name in NEAR),
    "lof",
    "typical",
    "changes",
    "queries",
    "ms",
)

_INTRODUCTION = """# Survival

Written by `python -m benchmarks.survival` from `survival.json`; do not edit. Every method answers the same refused test
records. A column a, b, c, d or e is the share of models that nobody asked and that accept the answers: a other seeds,
b 80% of the rows without repeats, c training and validation rows, d other families (LightGBM, a spline GAM, logistic
regression, TabM), e models of later rows. `all` is the share of answers that every model of the group accepts; a record
without an answer survives nowhere. Models that vote as an asked one does on more than 99.5% of the test rows do not
count, nor do models whose accuracy is not within .03 of the asked ones. Cost is relative to that of verified search
with ten queries on the same records. `real-approved` are real applicants that all asked models accept: the ceiling.
"""


def write_page(rows: Sequence[Row], groups: Sequence[Row], cache: Path) -> str:
    """The whole page: all data sets together, with intervals, then each by itself; last, which models count"""
    page, read = _INTRODUCTION, _reading_once(cache)
    for rules in dict.fromkeys(row["rules"] for row in rows):
        own = [row for row in rows if row["rules"] == rules]
        page += f"\n## All data sets, rules: {rules}\n{markdown_table(_overview(own, read))}"
        page += "\nIn brackets 95% intervals, by bootstrap over the seeds of each data set and their records. The two "
        page += "differences are of the mean of a to d in the same runs, paired record by record where both methods "
        page += f"answer the same ones ({CEILING} are other people).\n"
        page += "\n![Survival beside cost](survival.png)\n"
        for dataset in dict.fromkeys(row["dataset"] for row in own):
            some = [row for row in own if row["dataset"] == dataset]
            page += f"\n### {dataset}\n{markdown_table(_table(some, read))}"
    lines: list[tuple[str, ...]] = [("data set", "seed", "group", "models that count", "fell out")]
    lines += [
        (str(row["dataset"]), str(row["seed"]), row["group"], str(row["size"]), row["fell_out"]) for row in groups
    ]
    return page + f"\n## Models that count\n{markdown_table(lines)}"


def _reading_once(cache: Path) -> Read:
    known: dict[tuple[object, ...], Mapping[str, Floats] | None] = {}

    def read(row: Row) -> Mapping[str, Floats] | None:
        key = tuple(row[name] for name in KEY)
        if key not in known:
            known[key] = read_records(cache, row)
        return known[key]

    return read


def _overview(rows: Sequence[Row], read: Read) -> list[tuple[str, ...]]:
    compared = (f"less {CEILING}", f"less {BASE}")
    lines: list[tuple[str, ...]] = [
        ("method", "runs", "cost", *GROUPS, "mean of a to d", *compared, "all of a / b / c / d", "bound held")
    ]
    for method, own in by_method(rows).items():
        cost, groups = _number(relative_cost(own, rows)), [_figure(own, read, name) for name in GROUPS]
        every = " / ".join(_number(_mean(own, f"all_{name}")) for name in NEAR)
        others = (by_method(rows).get(other, []) if other != method else [] for other in (CEILING, BASE))
        differences = (str(_interval(own, read, NEAR, each) or "") if each else "" for each in others)
        near = str(_interval(own, read, NEAR) or "")
        figures = (*groups, near, *differences, every, _number(_mean(own, "coverage_abc")))
        lines.append((method, str(len(own)), cost, *figures))
    return lines


def _figure(own: Sequence[Row], read: Read, name: str) -> str:
    """With its interval, where the records are still in the cache"""
    return str(_interval(own, read, (name,)) or _number(_mean(own, name)))


def _table(rows: Sequence[Row], read: Read) -> list[tuple[str, ...]]:
    names = ("cost", *COLUMNS)
    header = ("method", "seeds", *(name.replace("_", " ") for name in names), "isolation", "mean of a to d")
    lines: list[tuple[str, ...]] = [header]
    for method, own in by_method(rows).items():
        figures = (*(_number(_mean(own, name)) for name in names), _number(_isolation(own, read)))
        lines.append((method, str(len(own)), *figures, str(_interval(own, read, NEAR) or "")))
    return lines


def _isolation(own: Sequence[Row], read: Read) -> float | None:
    """The mean of the isolation forest's scores over the answers"""
    found = [each for each in map(read, own) if each is not None and each["answered"].any()]
    means = [float(each["isolation"][each["answered"] == 1.0].mean()) for each in found]
    return float(np.mean(means)) if means else None


def by_method(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each method, in the order in which they come"""
    return {name: [row for row in rows if row["method"] == name] for name in methods_of(rows)}


def methods_of(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(str(row["method"]) for row in rows))


def relative_cost(own: Sequence[Row], rows: Sequence[Row]) -> float | None:
    """The mean over the runs of a method's cost over that of BASE in the same run"""
    base = {_run(row): row["cost"] for row in rows if row["method"] == BASE}
    ratios = [row["cost"] / base[_run(row)] for row in own if row["cost"] is not None and base.get(_run(row))]
    return float(np.mean(ratios)) if ratios else None


def _run(row: Row) -> tuple[object, ...]:
    return row["dataset"], row["seed"], row["rules"]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    """Data sets count alike, whatever the number of their seeds"""
    means = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        values = [row[name] for row in rows if row["dataset"] == dataset and row[name] is not None]
        means += [np.mean(values)] if values else []
    return float(np.mean(means)) if means else None


def _interval(own: Sequence[Row], read: Read, groups: Sequence[str], others: Sequence[Row] = ()) -> Interval | None:
    """The mean of the groups, or its difference to another method in the same runs, with its bootstrap interval"""
    compared = {_run(row): row for row in others}
    datasets: dict[object, list[Run]] = {}
    for row in own:
        other = compared.get(_run(row))
        values, beside = _mean_of(read(row), groups), None if other is None else _mean_of(read(other), groups)
        if values is None or (others and beside is None):
            continue
        same = other is None or CEILING not in (row["method"], other["method"])
        datasets.setdefault(row["dataset"], []).append(Run(values, beside, same))
    return interval(list(datasets.values()))


def _mean_of(each: Mapping[str, Floats] | None, groups: Sequence[str]) -> Floats | None:
    """The mean over the groups that there are of each record (n,)"""
    found = [] if each is None else [each[name] for name in groups if name in each]
    return np.asarray(np.mean(found, axis=0)) if found else None


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def draw_picture(rows: Sequence[Row], path: Path) -> None:
    """A panel a data set and one for their mean: survival (mean of a to d) over relative cost"""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    figure = Figure(figsize=(15, 3.6 * -(-(len(datasets) + 1) // 3)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(-(-(len(datasets) + 1) // 3), 3, squeeze=False).flatten()
    for axis, name in zip(axes, ("all data sets", *datasets), strict=False):
        chosen = [row for row in rows if row["rules"] == "none" and name in ("all data sets", row["dataset"])]
        for number, method in enumerate(methods_of(chosen)):
            own = [row for row in chosen if row["method"] == method]
            height = np.mean([mean for each in NEAR if (mean := _mean(own, each)) is not None] or [np.nan])
            away = relative_cost(own, chosen)
            if method == CEILING:
                axis.axhline(height, color="#888888", linestyle="--", label=method)
            elif away is not None:
                axis.plot(away, height, "osD^v<>pPXh*d8"[number % 14], label=method, markersize=8)
        axis.set(title=name, xlabel=f"cost ({BASE} = 1)", ylabel="share of other models")
        axis.grid(alpha=0.25)
    for spare in axes[len(datasets) + 1 :]:
        spare.set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=7, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
