"""`recourse evaluate`: the quality of the method on a data set, beside the paper and the oracle."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from app.commands import choices
from app.commands.choices import Preset, TrainSettings, Tuning
from app.commands.console import answers, notes
from models.errors import ConfigError


@dataclass(frozen=True, slots=True)
class EvaluateOrder:
    """What the command line asks for."""

    data: str
    label: str | None
    schema: Path | None
    seeds: tuple[int, ...]
    records: int
    max_queries: int
    settings: TrainSettings


MOST_SEEDS = 1000

Seeds = Annotated[str, typer.Option(help="One run a seed: 0-4, or 0,3,5.")]
Records = Annotated[int, typer.Option(min=1, help="Test records at most.")]
MaxQueries = Annotated[
    int, typer.Option(min=1, max=choices.MOST_QUERIES, help="What verified search may ask for each record.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def evaluate(
    data: choices.Data,
    label: choices.Label = None,
    schema: choices.SchemaFile = None,
    seeds: Seeds = "0-4",
    records: Records = 200,
    max_queries: MaxQueries = 10,
    preset: choices.PresetOption = Preset.FAST,
    ensemble: choices.Ensemble = Tuning.QUICK,
    members: choices.Members = None,
    queries: choices.Queries = None,
    top_features: choices.TopFeatures = None,
    device: choices.Device = "cpu",
    effort: choices.Effort = 1.0,
    json: Json = False,
) -> None:
    """Train on DATA and measure the counterfactuals of its test records: the surrogate alone, verified, the oracle.

    The paper's figure for musk is that of --top-features 10.
    """
    wanted = parse_seeds(seeds)
    from app.commands.evaluate_run import run_evaluation
    from app.commands.evaluate_table import evaluation_json, evaluation_table
    from models.device import one_thread

    settings = TrainSettings(preset, ensemble, members, queries, top_features, device, effort)
    order = EvaluateOrder(data, label, schema, wanted, records, max_queries, settings)
    with one_thread():
        measured = run_evaluation(order, notes())
    if json:
        typer.echo(evaluation_json(measured))
    else:
        answers().print(evaluation_table(measured))


def parse_seeds(text: str) -> tuple[int, ...]:
    """0-4 -> (0, 1, 2, 3, 4); 0,3 -> (0, 3)"""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(f"--seeds is '{text}'; write it as 0-4 or as 0,3,5.")
        span = range(int(first), int(last if dash else first) + 1)
        if len(seeds) + len(span) > MOST_SEEDS or span.stop > choices.MOST_SEED + 1:
            most = f"{MOST_SEEDS} seeds of at most {choices.MOST_SEED}"
            raise ConfigError(f"--seeds is '{text}', which is beyond {most}; name fewer or smaller ones.")
        seeds += span
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds is '{text}', which names no seed or one of them twice; write it as 0-4 or 0,3,5.")
    return tuple(seeds)
