"""What `recourse train` says at the end."""

import shlex

from rich.console import Group, RenderableType
from rich.table import Table

from app.commands.train_run import Trained
from models.model import FrontierPoint

SHOWN_HASH = 12
SHOWN_POINTS = 6


def summary(trained: Trained) -> RenderableType:
    """The facts, the members' accuracy, and the frontier."""
    return Group(_facts(trained), _members(trained), _frontier(trained.model.frontier))


def next_command(trained: Trained) -> str:
    """What to type now; one line, so that it can be copied."""
    folder, target = shlex.quote(str(trained.order.out)), shlex.quote(trained.model.classes[0])
    return f"recourse explain {folder} RECORDS.csv --target {target}"


def _facts(trained: Trained) -> Table:
    model, study, settings = trained.model, trained.study, trained.order.settings
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
    table.add_row("rows", f"{len(study.training)} training, {len(study.validation)} validation, {len(study.test)} test")
    effort = "" if settings.effort == 1 else f", effort {settings.effort:g}"
    table.add_row("settings", f"{settings.preset}, {settings.tuning} ensemble, seed {trained.order.seed}{effort}")
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


def _frontier(frontier: tuple[FrontierPoint, ...]) -> Table:
    """A few points of the dial, the most robust first."""
    table = Table(title="The dial: --price, on validation rows", title_justify="left")
    for heading in ("price", "mean cost", "expected agreement"):
        table.add_column(heading, justify="right")
    stride = max(1, len(frontier) // SHOWN_POINTS)
    for point in frontier[::stride]:
        table.add_row(f"{point.cost_weight:.3f}", f"{point.cost:.2f}", f"{point.agreement:.0%}")
    return table
