"""What `recourse train` says at the end."""

import shlex

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.commands.train_run import Trained
from models.model import FrontierPoint

SHOWN_HASH = 12
SHOWN_POINTS = 6


def summary(trained: Trained) -> RenderableType:
    """The facts, the members' accuracy, the frontier, and the next command."""
    command = f"recourse explain {shlex.quote(str(trained.order.out))} RECORDS.csv"
    target = shlex.quote(trained.model.classes[0])
    following = Text(f"\nNext: {command} --target {target}")
    return Group(_facts(trained), _members(trained), _frontier(trained.model.frontier), following)


def _facts(trained: Trained) -> Table:
    model, parts = trained.model, trained.prepared.split
    order, features = trained.order, len(model.encoder.schema.features)
    flowing = f"{features}" if len(model.flowing) == features else f"{features}, of which {len(model.flowing)} flow"
    table = Table(show_header=False, title=f"Trained on {trained.prepared.name}", title_justify="left")
    table.add_row("classes", ", ".join(model.classes))
    table.add_row("features", flowing)
    table.add_row("rows", f"{len(parts.train)} training, {len(parts.validation)} validation, {len(parts.test)} test")
    effort = "" if order.effort == 1 else f", effort {order.effort:g}"
    table.add_row("settings", f"{order.preset}, {order.tuning} ensemble, seed {order.seed}{effort}")
    table.add_row("queries", f"{model.queries} of at most {trained.query_limit}")
    table.add_row("seconds", f"{trained.seconds:.0f}")
    table.add_row("content hash", trained.content_hash[:SHOWN_HASH])
    return table


def _members(trained: Trained) -> Table:
    table = Table(title="Black boxes", title_justify="left")
    table.add_column("model")
    table.add_column("accuracy, test rows", justify="right")
    for name, accuracy in zip(trained.members, trained.accuracy, strict=True):
        table.add_row(name, f"{accuracy:.3f}")
    return table


def _frontier(frontier: tuple[FrontierPoint, ...]) -> Table:
    """A few points of the dial, the most robust first."""
    table = Table(title="The dial: --price, on validation rows", title_justify="left")
    for heading in ("price", "mean cost", "expected agreement"):
        table.add_column(heading, justify="right")
    stride = max(1, len(frontier) // SHOWN_POINTS)
    for point in frontier[::stride]:
        table.add_row(f"{point.price:.3f}", f"{point.cost:.2f}", f"{point.agreement:.0%}")
    return table
