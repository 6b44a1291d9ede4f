"""What a setting may be, said by its annotation; a ConfigError names the setting and its value.

class FlowConfig(Settings):
    section: ClassVar[str] = "flow."
    steps: Size = 1                                           a whole number of at least 1
    width: Annotated[int, at_least(8)] = 48
    fractions: Annotated[tuple[float, ...], filled, every(share)] = (0.5, 1.0)
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args, get_origin, get_type_hints

from ..errors import ConfigError

Check: TypeAlias = Callable[[str, Any], None]
"""(name, value) -> ConfigError where the value makes no sense"""


def require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)


def positive(name: str, value: float) -> None:
    require(0 < value < math.inf, f"{name} is {value}; it must be a finite number above 0.")


def filled(name: str, values: Sequence[object]) -> None:
    require(len(values) > 0, f"{name} is empty; give at least one number.")


def at_least(least: float) -> Check:
    def check(name: str, value: float) -> None:
        require(least <= value < math.inf, f"{name} is {value}; it must be a finite number of at least {least}.")

    return check


def between(least: float, most: float) -> Check:
    def check(name: str, value: float) -> None:
        require(least <= value <= most, f"{name} is {value}; it must lie between {least} and {most}.")

    return check


def every(check: Check) -> Check:
    def check_each(name: str, values: Sequence[object]) -> None:
        for value in values:
            check(name, value)

    return check_each


def _one_of(choices: Sequence[str]) -> Check:
    def check(name: str, value: str) -> None:
        require(value in choices, f"{name} is '{value}'; choose from {', '.join(choices)}.")

    return check


share = between(0, 1)
Count: TypeAlias = Annotated[int, at_least(0)]
Size: TypeAlias = Annotated[int, at_least(1)]
Positive: TypeAlias = Annotated[float, positive]
NotNegative: TypeAlias = Annotated[float, at_least(0)]
Share: TypeAlias = Annotated[float, share]
Positives: TypeAlias = Annotated[tuple[float, ...], filled, every(positive)]
Shares: TypeAlias = Annotated[tuple[float, ...], filled, every(share)]


class Settings:
    """What a frozen dataclass of settings inherits: each is checked as its annotation says, unless it is None."""

    __slots__ = ()
    section: ClassVar[str] = ""
    """Stands before the name of a setting where it is wrong."""

    def __post_init__(self) -> None:
        for name, checks in _checks_of(type(self)).items():  # type: ignore[arg-type]  # mypy: a class has no hash
            if (value := getattr(self, name)) is not None:
                for check in checks:
                    check(f"{self.section}{name}", value)


@cache
def _checks_of(kind: type) -> dict[str, tuple[Check, ...]]:
    """The checks of each setting, by its name"""
    plain, hints = get_type_hints(kind), get_type_hints(kind, include_extras=True)
    checks = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    choices = {name: (_one_of(get_args(hint)),) for name, hint in plain.items() if get_origin(hint) is Literal}
    return checks | choices
