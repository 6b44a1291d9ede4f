"""`recourse train`: from a table to a saved model with its ensemble. Nothing is written before all of it is done.

What needs the method's packages is imported where it is used: the plain install has them not.
"""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table

from app.commands import options
from app.commands.console import Bars, answers, notes
from app.commands.options import Preset, Tuning
from models.data.protected import protected_notice, protected_of
from models.errors import ArtifactError

if TYPE_CHECKING:
    from app.train.request import TrainSettings
    from models.datasets.dataset import Splits
    from models.model import FrontierPoint, RecourseModel

SHOWN_HASH = 12
SHOWN_POINTS = 6


@dataclass(frozen=True, eq=False)
class Trained:
    """What there is to tell at the end."""

    name: str
    settings: "TrainSettings"
    splits: "Splits"
    model: "RecourseModel"
    accuracy: dict[str, float]
    query_limit: int
    content_hash: str
    seconds: float


Out = Annotated[Path, typer.Option(help="The folder to make; it must not exist.")]
Seed = Annotated[int, typer.Option(min=0, max=options.MOST_SEED, help="The same seed and data give the same model.")]


def train(
    data: options.Data,
    out: Out,
    label: options.Label = None,
    schema: options.SchemaFile = None,
    preset: options.PresetOption = Preset.FAST,
    encoding: options.EncodingOption = None,
    ensemble: options.Ensemble = Tuning.QUICK,
    members: options.Members = None,
    queries: options.Queries = None,
    seed: Seed = 0,
    top_features: options.TopFeatures = None,
    device: options.Device = "cpu",
    effort: options.Effort = 1.0,
) -> None:
    """Train the black boxes, the surrogate and the generator on DATA, and save them in the folder --out."""
    check_out(out)
    settings = options.read_settings(preset, ensemble, members, queries, top_features, effort, seed, encoding)
    try:
        trained = _train(data, label, schema, settings, device, out)
    except KeyboardInterrupt:
        notes().print(f"Stopped; nothing was written to '{out}'.", soft_wrap=True)
        raise typer.Exit(130) from None
    answers().print(Group(_facts(trained), _members(trained), _frontier(trained.model.frontier)))
    typer.echo(f"Next: recourse explain {shlex.quote(str(out))} RECORDS.csv --target {_target(trained)}")


def check_out(out: Path) -> None:
    """An existing folder is never written into, and a hopeless one is refused at once."""
    if out.exists() or out.is_symlink():
        raise ArtifactError(f"The folder '{out}' exists already; choose another for --out, or remove it first.")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ArtifactError(f"'{out}' cannot be made, because '{above}' is not a folder that may be written.")


def _train(
    data: str, label: str | None, schema: Path | None, settings: "TrainSettings", device: str, out: Path
) -> Trained:
    """Everything that can be refused is refused before the first model is trained."""
    from app.commands.data import read_data
    from models.datasets.dataset import split_dataset
    from models.device import find_device, one_thread
    from models.storage.artifact import save_model
    from models.training.pipeline import check_top_features, fit, member_accuracy

    started = perf_counter()
    config, limit = options.within_queries(settings, device)
    find_device(device)
    with one_thread():
        dataset = read_data(data, label, schema)
        splits = split_dataset(dataset, settings.seed, settings.encoding, for_advice=True)
        check_top_features(config, splits)
        with Bars(notes()) as bars:
            members, mode = settings.members, settings.mode
            fitted = fit(splits, members, mode, config, limit, settings.seed, bars.ensemble, bars.report)
        content_hash = save_model(fitted.model, out, fitted.ensemble)
        accuracy = member_accuracy(fitted.ensemble, splits.test)
    seconds = perf_counter() - started
    return Trained(dataset.name, settings, splits, fitted.model, accuracy, limit, content_hash, seconds)


def _target(trained: Trained) -> str:
    return shlex.quote(trained.model.classes[0])


def _facts(trained: Trained) -> Table:
    model, splits, settings = trained.model, trained.splits, trained.settings
    features = len(model.encoder.schema.features)
    flowing = (
        f"{features}"
        if len(model.generated_features) == features
        else f"{features}, of which {len(model.generated_features)} flow"
    )
    table = Table(show_header=False, title=f"Trained on {trained.name}", title_justify="left")
    table.add_row("classes", ", ".join(model.classes))
    table.add_row("features", flowing)
    if protected := [feature.name for feature in model.encoder.schema.features if feature.protected]:
        table.add_row("never suggested", f"{', '.join(protected)} (protected)")
        for feature in model.encoder.schema.features:
            if feature.protected and (found := protected_of(feature)) is not None and not found.sure:
                notes().print(protected_notice(feature.name, found), soft_wrap=True)
    sizes = (len(splits.training), len(splits.validation), len(splits.test))
    table.add_row("rows", "{} training, {} validation, {} test".format(*sizes))
    effort = "" if settings.effort == 1 else f", effort {settings.effort:g}"
    table.add_row("settings", f"{settings.preset}, {settings.mode} ensemble, seed {settings.seed}{effort}")
    table.add_row("queries", f"{model.queries} of at most {trained.query_limit}")
    table.add_row("seconds", f"{trained.seconds:.0f}")
    table.add_row("content hash", trained.content_hash[:SHOWN_HASH])
    return table


def _members(trained: Trained) -> Table:
    table = Table(title="Black boxes", title_justify="left")
    table.add_column("model")
    table.add_column("accuracy, test rows", justify="right")
    for name, accuracy in trained.accuracy.items():
        table.add_row(name, f"{accuracy:.3f}")
    return table


def _frontier(frontier: "tuple[FrontierPoint, ...]") -> Table:
    """A few points of the dial, the most robust first."""
    table = Table(title="The dial: --price, on validation rows", title_justify="left")
    for heading in ("price", "mean cost", "expected agreement"):
        table.add_column(heading, justify="right")
    stride = max(1, len(frontier) // SHOWN_POINTS)
    for point in frontier[::stride]:
        table.add_row(f"{point.cost_weight:.3f}", f"{point.cost:.2f}", f"{point.agreement:.0%}")
    return table
