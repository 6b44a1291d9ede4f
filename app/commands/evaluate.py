"""`recourse evaluate`: the quality of the method on a data set, beside the paper and the oracle, once a seed.

What needs the method's packages is imported where it is used: the plain install has them not.
"""

import json as json_text
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.commands import options
from app.commands.console import Bars, answers, notes
from app.commands.options import Preset, Tuning
from models.errors import ConfigError

if TYPE_CHECKING:
    from app.train.request import Encoding, TrainSettings
    from models.datasets.dataset import Labelled, Splits
    from models.ensemble.local import LocalEnsemble
    from models.evaluation.evaluation import Published, Quality
    from models.evaluation.survival import Group as OtherModels


@dataclass(frozen=True, slots=True)
class EvaluateOrder:
    """What the command line asks for."""

    data: str
    label: str | None
    schema: Path | None
    seeds: tuple[int, ...]
    records: int
    max_queries: int
    device: str
    survival: bool
    encoding: "Encoding | None"


@dataclass(frozen=True, slots=True)
class Run:
    """One seed: the three methods, and which share of the models that nobody asked accepts their answers."""

    seed: int
    qualities: "tuple[Quality, ...]"
    survival: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """All seeds, and what the paper reports of this data set, if it does."""

    name: str
    settings: "TrainSettings"
    published: "Published | None"
    runs: tuple[Run, ...]


FIGURES: "dict[str, Callable[[Quality], float]]" = {
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
GROUPS = {
    "a": "survival, other seeds",
    "b": "survival, 80% of the rows",
    "c": "survival, more rows",
    "d": "survival, other families",
}
"""Models that nobody asked, in groups (models/evaluation/survival.py)."""
MOST_SEEDS = 1000
MEMBERS = 7
"""The number of black boxes; where all of them are used, they are not named one by one."""

Seeds = Annotated[str, typer.Option(help="One run a seed: 0-4, or 0,3,5.")]
Records = Annotated[int, typer.Option(min=1, help="Test records at most.")]
MaxQueries = Annotated[
    int, typer.Option(min=1, max=options.MOST_QUERIES, help="What verified search may ask for each record.")
]
Survival = Annotated[
    bool,
    typer.Option("--survival", help="Also train models that are never asked; which share of them accepts the answers?"),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def evaluate(
    data: options.Data,
    label: options.Label = None,
    schema: options.SchemaFile = None,
    seeds: Seeds = "0-4",
    records: Records = 200,
    max_queries: MaxQueries = 10,
    preset: options.PresetOption = Preset.FAST,
    encoding: options.EncodingOption = None,
    ensemble: options.Ensemble = Tuning.QUICK,
    members: options.Members = None,
    queries: options.Queries = None,
    top_features: options.TopFeatures = None,
    device: options.Device = "cpu",
    effort: options.Effort = 1.0,
    survival: Survival = False,
    json: Json = False,
) -> None:
    """Train on DATA and measure the counterfactuals of its test records: the surrogate alone, verified, the oracle.

    The paper's figure for musk is that of --top-features 10. Where there is a figure of the paper to compare with,
    categories are on a circle as in the paper, unless --encoding says otherwise.
    """
    settings = options.read_settings(preset, ensemble, members, queries, top_features, effort, encoding=encoding)
    chosen = None if encoding is None else settings.encoding
    wanted = EvaluateOrder(data, label, schema, parse_seeds(seeds), records, max_queries, device, survival, chosen)
    measured = _evaluate(wanted, settings)
    if json:
        typer.echo(_as_json(measured))
    else:
        answers().print(_as_table(measured))


def parse_seeds(text: str) -> tuple[int, ...]:
    """0-4 -> (0, 1, 2, 3, 4); 0,3 -> (0, 3)"""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(f"--seeds is '{text}'; write it as 0-4 or as 0,3,5.")
        span = range(int(first), int(last if dash else first) + 1)
        if len(seeds) + len(span) > MOST_SEEDS or span.stop > options.MOST_SEED + 1:
            most = f"{MOST_SEEDS} seeds of at most {options.MOST_SEED}"
            raise ConfigError(f"--seeds is '{text}', which is beyond {most}; name fewer or smaller ones.")
        seeds += span
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds is '{text}', which names no seed or one of them twice; write it as 0-4 or 0,3,5.")
    return tuple(seeds)


def _evaluate(order: EvaluateOrder, settings: "TrainSettings") -> Measured:
    """The cost weight of the surrogate's search is set to the paper's cost, where the paper has this data set."""
    from app.commands.data import read_data
    from models.config import EvaluationConfig
    from models.datasets.dataset import split_dataset
    from models.device import find_device, one_thread
    from models.evaluation.evaluation import PUBLISHED, evaluate
    from models.training.pipeline import check_top_features, fit

    config, limit = options.within_queries(settings, order.device)
    find_device(order.device)
    dataset = read_data(order.data, order.label, order.schema)
    published = PUBLISHED.get(dataset.name)
    budget = None if published is None else published.cost
    encoding = order.encoding or (settings.encoding if published is None else "circle")
    runs = []
    for seed in order.seeds:
        splits = split_dataset(dataset, seed, encoding)
        check_top_features(config, splits)
        notes().print(f"{dataset.name}, seed {seed}")
        measure = EvaluationConfig(order.records, order.records, order.max_queries, budget, seed=seed)
        with one_thread(), Bars(notes()) as bars:
            fitted = fit(splits, settings.members, settings.mode, config, limit, seed, bars.ensemble, bars.report)
            bars.wait("measuring")
            groups = _others(splits, fitted.ensemble, settings, seed) if order.survival else None
            seconds = fitted.train_seconds
            found = evaluate(fitted.model, fitted.ensemble, splits, measure, seconds, groups)
        runs.append(Run(seed, found.qualities, found.survival))
    return Measured(dataset.name, settings, published, tuple(runs))


def _others(
    splits: "Splits", ensemble: "LocalEnsemble", settings: "TrainSettings", seed: int
) -> "dict[str, OtherModels]":
    """The groups of models that nobody asked; which of them do not count is said"""
    from models.ensemble.local import train_local_ensemble
    from models.evaluation.survival import other_models

    def fit(rows: "Labelled", seed: int) -> "LocalEnsemble":
        return train_local_ensemble(splits.encoder, rows.records, rows.labels, settings.mode, settings.members, seed)

    groups = other_models(splits, ensemble, fit, seed)
    for group in groups.values():
        notes().print(
            f"{GROUPS[group.name]}: {group.size} models" + "".join(f"; not {each}" for each in group.fell_out)
        )
    return groups


def _as_table(measured: Measured) -> RenderableType:
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
    for name, heading in GROUPS.items():
        if any(name in each for run in measured.runs for each in run.survival):
            shares = ([run.survival[column].get(name) for run in measured.runs] for column in range(3))
            table.add_row(heading, *(_mean_and_deviation([s for s in each if s is not None]) for each in shares), "")
    return Group(table, Text(_against_the_oracle(measured)))


def _title(measured: Measured) -> str:
    """What was measured, and with which settings: the paper's figures are those of seven tuned black boxes."""
    settings, every = measured.settings, len(measured.settings.members) == MEMBERS
    boxes = f"{settings.mode} ensemble" if every else f"{settings.mode} {','.join(settings.members)}"
    effort = "" if settings.effort == 1 else f", effort {settings.effort:g}"
    seeds = ", ".join(str(run.seed) for run in measured.runs)
    return f"{measured.name}: {settings.preset}, {boxes}{effort}, seeds {seeds}"


def _as_json(measured: Measured) -> str:
    """One object; `runs` has one entry a seed and method, with the keys of quality.json; a to d are survival."""
    settings, published = measured.settings, measured.published
    document = {
        "dataset": measured.name,
        "preset": settings.preset,
        "ensemble": settings.mode,
        "effort": settings.effort,
        "paper": None if published is None else asdict(published),
        "runs": [
            {"dataset": measured.name, "seed": run.seed, **asdict(quality), **others}
            for run in measured.runs
            for quality, others in zip(run.qualities, run.survival, strict=True)
        ],
    }
    return json_text.dumps(document, indent=2, allow_nan=False)


def _mean_and_deviation(values: list[float]) -> str:
    if not any(values):
        return "0" if values else ""
    mean, deviation = float(np.mean(values)), float(np.std(values))
    digits = 3 if abs(mean) < 10 else 0
    return f"{mean:.{digits}f}±{deviation:.{digits}f}"


def _paper(figure: str, published: "Published | None") -> str:
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
