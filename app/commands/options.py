"""The options that commands share, and how they are read. Nothing heavy is imported: the commands' help needs this."""

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from app.train.request import TrainSettings
    from models.config import Config

MOST_SEED = 2**31 - 1
"""As POST /train has it: scikit-learn takes no larger one."""
MOST_QUERIES = 10**6
_PART = re.compile(r'\s*"([^"]+)"\s*(?=,|$)|([^,]+)')


class Preset(StrEnum):
    """The names of models.config.PRESETS."""

    FAST = "fast"
    PAPER = "paper"


class Encoding(StrEnum):
    """The names of models.space.codings.Encoding."""

    SIMPLEX = "simplex"
    CIRCLE = "circle"


class Tuning(StrEnum):
    """How the ensemble is trained: models.ensemble.recipes.Mode."""

    QUICK = "quick"
    TUNED = "tuned"


Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A CSV or Parquet file, or a built-in data set (see `recourse data`).")
]
Label = Annotated[str | None, typer.Option(metavar="COL", help="The label column; a built-in data set knows its own.")]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help='JSON such as {"features": {"savings": {"direction": "up"}}}.'),
]
PresetOption = Annotated[Preset, typer.Option(help="Ours, or the settings of the paper.")]
EncodingOption = Annotated[
    Encoding | None,
    typer.Option(help="Categories without an order equally far from each other, or on a circle as in the paper."),
]
Ensemble = Annotated[Tuning, typer.Option(help="Good defaults, or the paper's grid with cross-validation (slow).")]
Members = Annotated[str | None, typer.Option(metavar="A,B", help="Only these black boxes; by default all seven.")]
Queries = Annotated[
    int | None, typer.Option(min=0, max=MOST_QUERIES, help="The most records put to the ensemble; by default 480.")
]
TopFeatures = Annotated[
    int | None, typer.Option(min=1, metavar="K", help="Wide data: only the K best features change.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or one card of several such as cuda:1.")]
Effort = Annotated[float, typer.Option(help="Scales the training steps: 0.1 is for trying things out, not for use.")]


def listed(text: str) -> tuple[str, ...]:
    """a,b -> (a, b); a name with a comma in it is quoted, as in CSV"""
    parts = [quoted or plain.strip() for quoted, plain in _PART.findall(text)]
    return tuple(part for part in parts if part)


def read_settings(
    preset: Preset,
    ensemble: Tuning,
    members: str | None,
    queries: int | None,
    top_features: int | None,
    effort: float,
    seed: int = 0,
    encoding: Encoding | None = None,
) -> "TrainSettings":
    """The options as POST /train knows them; ConfigError names the one that is wrong."""
    from app.train.request import TrainSettings

    chosen = {} if encoding is None else {"encoding": encoding.value}
    return TrainSettings.read(
        {
            **chosen,
            "preset": preset.value,
            "mode": ensemble.value,
            "members": None if members is None else listed(members),
            "queries": queries,
            "top_features": top_features,
            "effort": effort,
            "seed": seed,
        }
    )


def within_queries(settings: "TrainSettings", device: str) -> tuple["Config", int]:
    """The method's configuration, and the query limit; a larger limit than the preset's pays for more rounds."""
    config = settings.to_config(device)
    if settings.queries is None:
        return config, config.queries
    return config.within_queries(settings.queries), settings.queries
