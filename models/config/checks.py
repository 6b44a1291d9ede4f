"""Checks that every settings class makes in its __post_init__; a ConfigError names the setting and its value."""

import math

from ..errors import ConfigError


def require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)


def positive(name: str, value: float) -> None:
    require(0 < value < math.inf, f"{name} is {value}; it must be a finite number above 0.")


def at_least(name: str, value: float, least: float) -> None:
    require(least <= value < math.inf, f"{name} is {value}; it must be a finite number of at least {least}.")


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    require(value in choices, f"{name} is '{value}'; choose from {', '.join(choices)}.")


def share(name: str, value: float) -> None:
    """From 0 to 1"""
    require(0 <= value <= 1, f"{name} is {value}; it must lie between 0 and 1.")
