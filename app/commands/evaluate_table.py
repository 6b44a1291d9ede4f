"""What `recourse evaluate` found, for a person and for a program."""

import json
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.commands.evaluate_run import Measured
from models.evaluation.evaluation import Published, Quality

FIGURES: dict[str, Callable[[Quality], float]] = {
    "validity": lambda quality: quality.validity,
    "unanimity": lambda quality: quality.unanimity,
    "cost": lambda quality: quality.cost,
    "features changed": lambda quality: quality.sparsity,
    "queries, training": lambda quality: quality.queries_train,
    "queries a record": lambda quality: quality.queries_per_explanation,
    "LOF": lambda quality: quality.lof,
    "Isolation Forest": lambda quality: quality.isoforest,
    "seconds to train": lambda quality: quality.train_seconds,
    "ms to explain": lambda quality: quality.explain_ms,
}


def evaluation_table(measured: Measured) -> RenderableType:
    """One row a figure, one column a method, mean±std over the seeds; the paper beside them where it has the figure."""
    methods = [quality.method for quality in measured.runs[0].qualities]
    records = sum(run.qualities[0].records for run in measured.runs)
    table = Table(title=f"{_title(measured)}, {records} records", title_justify="left")
    table.add_column("")
    for heading in (*methods, "paper"):
        table.add_column(heading, justify="right")
    for name, figure in FIGURES.items():
        cells = [_mean_and_deviation([figure(run.qualities[column]) for run in measured.runs]) for column in range(3)]
        table.add_row(name, *cells, _paper(name, measured.published))
    return Group(table, Text(_against_the_oracle(measured)))


def _title(measured: Measured) -> str:
    """What was measured, and with which settings: the paper's figures are those of seven tuned black boxes."""
    settings = measured.order.settings
    boxes = f"{settings.tuning} ensemble" if settings.members is None else f"{settings.tuning} {settings.members}"
    effort = "" if settings.effort == 1 else f", effort {settings.effort:g}"
    seeds = ", ".join(str(run.seed) for run in measured.runs)
    return f"{measured.name}: {settings.preset}, {boxes}{effort}, seeds {seeds}"


def evaluation_json(measured: Measured) -> str:
    """One object; `runs` has one entry a seed and method, with the keys of benchmarks/results/quality.json."""
    order, published = measured.order, measured.published
    document = {
        "dataset": measured.name,
        "preset": order.settings.preset.value,
        "ensemble": order.settings.tuning.value,
        "effort": order.settings.effort,
        "paper": None if published is None else asdict(published),
        "runs": [
            {"dataset": measured.name, "seed": run.seed, **asdict(quality)}
            for run in measured.runs
            for quality in run.qualities
        ],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _mean_and_deviation(values: list[float]) -> str:
    if not any(values):
        return "0"
    mean, deviation = float(np.mean(values)), float(np.std(values))
    digits = 3 if abs(mean) < 10 else 0
    return f"{mean:.{digits}f}±{deviation:.{digits}f}"


def _paper(figure: str, published: Published | None) -> str:
    if published is None:
        return ""
    return {"validity": f"{published.validity:.3f}", "cost": f"{published.cost:.3f}"}.get(figure, "")


def _against_the_oracle(measured: Measured) -> str:
    """Verified search as ratios to the limit."""
    verified, limit = (
        np.mean([[run.qualities[column].unanimity, run.qualities[column].cost] for run in measured.runs], axis=0)
        for column in (1, 2)
    )
    if not limit.all():
        return "The oracle found no record that all models accept."
    unanimity, cost = verified / limit
    return f"Verified search reaches {unanimity:.2f} of the oracle's unanimity at {cost:.2f} of its cost."
