"""The options of a training as the method takes them."""

import math
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
    config = scale(PRESETS[settings.preset.value](), settings.effort)
    config = replace(config, device=settings.device, top_features=settings.top_features)
    if settings.queries is None:
        return config, config.queries
    rounds = max(config.distill.rounds, settings.queries // max(config.distill.queries, 1))
    return replace(config, distill=replace(config.distill, rounds=rounds)), settings.queries


def scale(config: Config, effort: float) -> Config:
    """The same training with `effort` times the steps; the queries stay."""
    if not 0 < effort <= 10:
        raise ConfigError(f"--effort is {effort}; it must lie above 0 and at most at 10.")

    def scaled(steps: int) -> int:
        return math.ceil(steps * effort)

    generator, distill = config.generator, config.distill
    epochs = None if generator.epochs is None else scaled(generator.epochs)
    return replace(
        config,
        surrogate=replace(config.surrogate, steps=scaled(config.surrogate.steps)),
        generator=replace(generator, steps=scaled(generator.steps), epochs=epochs),
        distill=replace(
            distill,
            surrogate_steps=scaled(distill.surrogate_steps),
            generator_steps=scaled(distill.generator_steps),
        ),
    )
