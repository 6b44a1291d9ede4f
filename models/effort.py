"""More or less training than a preset has, with the same queries."""

import math
from dataclasses import replace

from models.config import Config
from models.errors import ConfigError

MOST = 10.0
SCOUT_STEPS = 400
"""The scout is trained in a second or two: however little effort, it gets so many of its steps."""


def scale(config: Config, effort: float) -> Config:
    """The same training with `effort` times the steps; the queries stay."""
    if not 0 < effort <= MOST:
        raise ConfigError(f"effort is {effort}; it must lie above 0 and at most at {MOST:g}.")

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
            settle_steps=scaled(distill.settle_steps),
        ),
        scout=replace(config.scout, steps=max(scaled(config.scout.steps), min(config.scout.steps, SCOUT_STEPS))),
    )


def afford(config: Config, queries: int) -> Config:
    """The same training within so many queries; a larger number pays for more rounds."""
    rounds = max(config.distill.rounds, queries // max(config.distill.queries, 1))
    return replace(config, distill=replace(config.distill, rounds=rounds))
