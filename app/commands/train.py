"""`recourse train`: from a table to a saved model with its ensemble."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.commands.console import answers, notes


class Preset(StrEnum):
    """The names of models.config.PRESETS."""

    FAST = "fast"
    PAPER = "paper"


class Tuning(StrEnum):
    """How the ensemble is trained: models.ensemble.recipes.Mode."""

    QUICK = "quick"
    TUNED = "tuned"


@dataclass(frozen=True, slots=True)
class TrainOrder:
    """What the command line asks for."""

    data: str
    out: Path
    label: str | None
    schema: Path | None
    preset: Preset
    tuning: Tuning
    members: str | None
    queries: int | None
    seed: int
    top_features: int | None
    device: str
    effort: float


Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A CSV or Parquet file, or a built-in data set (see `recourse data`).")
]
Out = Annotated[Path, typer.Option(help="The folder to make; it must not exist.")]
Label = Annotated[str | None, typer.Option(metavar="COL", help="The label column; a built-in data set knows its own.")]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help='JSON such as {"features": {"age": {"direction": "up"}}}.'),
]
PresetOption = Annotated[Preset, typer.Option(help="Ours, or the settings of the paper.")]
Ensemble = Annotated[Tuning, typer.Option(help="Good defaults, or the paper's grid with cross-validation (slow).")]
Members = Annotated[str | None, typer.Option(metavar="A,B", help="Only these black boxes; by default all seven.")]
Queries = Annotated[int | None, typer.Option(min=0, help="The most records put to the ensemble; by default 480.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed and data give the same model.")]
TopFeatures = Annotated[int | None, typer.Option(min=1, metavar="K", help="Wide data: only the K best features flow.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or one card of several such as cuda:1.")]
Effort = Annotated[float, typer.Option(help="Scales the training steps: 0.1 is for trying things out, not for use.")]


def train(
    data: Data,
    out: Out,
    label: Label = None,
    schema: SchemaFile = None,
    preset: PresetOption = Preset.FAST,
    ensemble: Ensemble = Tuning.QUICK,
    members: Members = None,
    queries: Queries = None,
    seed: Seed = 0,
    top_features: TopFeatures = None,
    device: Device = "cpu",
    effort: Effort = 1.0,
) -> None:
    """Train the black boxes, the surrogate and the generator on DATA, and save them in the folder --out."""
    from app.commands.train_run import run_training
    from app.commands.train_table import summary

    order = TrainOrder(data, out, label, schema, preset, ensemble, members, queries, seed, top_features, device, effort)
    try:
        trained = run_training(order, notes())
    except KeyboardInterrupt:
        notes().print(f"Stopped; nothing was written to '{out}'.")
        raise typer.Exit(130) from None
    answers().print(summary(trained))
