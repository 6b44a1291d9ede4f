"""SURVIVAL.md and survival.png: the share of other models that accept, beside what the answers cost."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.experiments.tables import markdown_table
from benchmarks.store import Row
from benchmarks.survival.figures import CEILING, GROUPS, read_records
from models.arrays import Floats

BASE = "verified-10"
"""The method whose cost is 1."""
NEAR = ("a", "b", "c", "d")
DRAWS = 1000
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
    page = _INTRODUCTION
    for rules in dict.fromkeys(row["rules"] for row in rows):
        own = [row for row in rows if row["rules"] == rules]
        page += f"\n## All data sets, rules: {rules}\n{markdown_table(_overview(own, cache))}"
        page += (
            "\nIn brackets the 95% interval of the mean of a to d, by bootstrap over seeds and records; beside it the "
        )
        page += f"difference to {CEILING} in the same runs, with its interval.\n"
        page += "\n![Survival beside cost](survival.png)\n"
        for dataset in dict.fromkeys(row["dataset"] for row in own):
            page += f"\n### {dataset}\n{markdown_table(_table([row for row in own if row['dataset'] == dataset]))}"
    lines: list[tuple[str, ...]] = [("data set", "seed", "group", "models that count", "fell out")]
    lines += [
        (str(row["dataset"]), str(row["seed"]), row["group"], str(row["size"]), row["fell_out"]) for row in groups
    ]
    return page + f"\n## Models that count\n{markdown_table(lines)}"


def _overview(rows: Sequence[Row], cache: Path) -> list[tuple[str, ...]]:
    compared = (f"less {CEILING}", f"less {BASE}")
    lines: list[tuple[str, ...]] = [
        ("method", "runs", "cost", *GROUPS, "mean of a to d", *compared, "all of a / b / c / d", "bound held")
    ]
    for method in methods_of(rows):
        own = [row for row in rows if row["method"] == method]
        cost, means = _number(relative_cost(own, rows)), [_number(_mean(own, name)) for name in GROUPS]
        every = " / ".join(_number(_mean(own, f"all_{name}")) for name in NEAR)
        differences = [_interval(own, rows, cache, other) for other in (CEILING, BASE)]
        figures = (*means, _interval(own, rows, cache, None), *differences, every, _number(_mean(own, "coverage_abc")))
        lines.append((method, str(len(own)), cost, *figures))
    return lines


def _table(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    names = ("cost", *COLUMNS)
    lines: list[tuple[str, ...]] = [("method", "seeds", *(name.replace("_", " ") for name in names))]
    for method in methods_of(rows):
        own = [row for row in rows if row["method"] == method]
        lines.append((method, str(len(own)), *(_number(_mean(own, name)) for name in names)))
    return lines


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


def _interval(own: Sequence[Row], rows: Sequence[Row], cache: Path, method: str | None) -> str:
    """The mean of a to d, or its difference to another method, with its bootstrap interval over seeds and records

    Runs are drawn in pairs, and so are records where both answer the same ones.
    """
    others = {_run(row): read_records(cache, row) for row in rows if row["method"] == method}
    pairs = [(read_records(cache, row), others.get(_run(row))) for row in own]
    kept = [(_near(one), None if other is None else _near(other)) for one, other in pairs if one is not None]
    kept = [pair for pair in kept if method is None or pair[1] is not None]
    if not kept:
        return ""
    random = np.random.default_rng(0)
    draws = []
    for _ in range(DRAWS):
        runs = random.integers(len(kept), size=len(kept))
        draws.append(float(np.mean([_drawn(kept[run], random, method != CEILING) for run in runs])))
    mean = np.mean([one.mean() - (0.0 if other is None else other.mean()) for one, other in kept])
    low, high = np.quantile(draws, (0.025, 0.975))
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def _drawn(pair: tuple[Floats, Floats | None], random: np.random.Generator, paired: bool) -> float:
    one, other = pair
    rows = random.integers(len(one), size=len(one))
    mean = float(one[rows].mean())
    if other is None:
        return mean
    if paired and len(one) == len(other):
        return mean - float(other[rows].mean())
    return mean - float(other[random.integers(len(other), size=len(other))].mean())


def _near(each: dict[str, Floats]) -> Floats:
    """The mean over the groups a to d of each record (n,)"""
    return np.asarray(np.mean([each[name] for name in NEAR if name in each], axis=0))


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
