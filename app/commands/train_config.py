"""The options of a training as the method takes them."""

from dataclasses import replace

from app.commands.choices import TrainSettings
from models.config import PRESETS, Config
from models.ensemble.recipes import MEMBER_NAMES
from models.errors import ConfigError


def choose_members(text: str | None) -> tuple[str, ...]:
    """a,b -> (a, b); checked before any data is read"""
    if text is None:
        return MEMBER_NAMES
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names or (text,):
        if name not in MEMBER_NAMES:
            raise ConfigError(f"There is no ensemble member '{name}'; choose from {', '.join(MEMBER_NAMES)}.")
    return names


def make_config(settings: TrainSettings) -> tuple[Config, int]:
    """The preset as the options change it, and the query limit; a larger limit pays for more rounds."""
    config = PRESETS[settings.preset.value]().scaled(settings.effort)
    config = replace(config, device=settings.device, top_features=settings.top_features)
    if settings.queries is None:
        return config, config.queries
    return config.within_queries(settings.queries), settings.queries
