"""`recourse train`: from a table to a saved model with its ensemble."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from app.commands import choices
from app.commands.choices import Preset, TrainSettings, Tuning
from app.commands.console import answers, notes
from models.errors import ArtifactError


@dataclass(frozen=True, slots=True)
class TrainOrder:
    """What the command line asks for."""

    data: str
    out: Path
    label: str | None
    schema: Path | None
    seed: int
    settings: TrainSettings


Out = Annotated[Path, typer.Option(help="The folder to make; it must not exist.")]
Seed = Annotated[int, typer.Option(min=0, max=choices.MOST_SEED, help="The same seed and data give the same model.")]


def train(
    data: choices.Data,
    out: Out,
    label: choices.Label = None,
    schema: choices.SchemaFile = None,
    preset: choices.PresetOption = Preset.FAST,
    ensemble: choices.Ensemble = Tuning.QUICK,
    members: choices.Members = None,
    queries: choices.Queries = None,
    seed: Seed = 0,
    top_features: choices.TopFeatures = None,
    device: choices.Device = "cpu",
    effort: choices.Effort = 1.0,
) -> None:
    """Train the black boxes, the surrogate and the generator on DATA, and save them in the folder --out."""
    check_out(out)
    settings = TrainSettings(preset, ensemble, members, queries, top_features, device, effort)
    order = TrainOrder(data, out, label, schema, seed, settings)
    try:
        _train(order)
    except KeyboardInterrupt:
        notes().print(f"Stopped; nothing was written to '{out}'.", soft_wrap=True)
        raise typer.Exit(130) from None


def _train(order: TrainOrder) -> None:
    from app.commands.train_run import run_training
    from app.commands.train_table import next_command, summary
    from models.device import one_thread

    with one_thread():
        trained = run_training(order, notes())
    answers().print(summary(trained))
    typer.echo(f"Next: {next_command(trained)}")


def check_out(out: Path) -> None:
    """An existing folder is never written into, and a hopeless one is refused at once."""
    if out.exists() or out.is_symlink():
        raise ArtifactError(f"The folder '{out}' exists already; choose another for --out, or remove it first.")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ArtifactError(f"'{out}' cannot be made, because '{above}' is not a folder that may be written.")
