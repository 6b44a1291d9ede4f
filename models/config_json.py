"""The configuration as a plain dict for JSON, and back: every key must be there, known and of its type."""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from types import NoneType, UnionType
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

from models.config import Config
from models.errors import ConfigError

Section = TypeVar("Section")


def config_to_json(config: Config) -> dict[str, object]:
    """A plain dict that json.dumps takes and `config_from_json` reads back unchanged."""
    return asdict(config)


def config_from_json(document: object) -> Config:
    """The configuration that `config_to_json` wrote; ConfigError names the first setting that is wrong."""
    return _read_section(Config, document, "")


def _read_section(kind: type[Section], document: object, prefix: str) -> Section:
    """One dataclass from an object; `prefix` is its place in the configuration, such as "flow."."""
    place = f"the section '{prefix[:-1]}' of the configuration" if prefix else "the configuration"
    if not isinstance(document, Mapping):
        raise ConfigError(f"Expected {place} to be an object, not {document!r}.")
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if odd := sorted(set(names) ^ set(document), key=str):
        fact = "lacks the setting" if odd[0] in names else "has the unknown setting"
        raise ConfigError(f"The configuration {fact} '{prefix}{odd[0]}'; its version may be another.")
    hints = get_type_hints(kind)
    return kind(*(_read_value(hints[name], document[name], prefix + name) for name in names))


def _read_value(hint: object, value: object, name: str) -> object:
    """The value as the setting's type: a section, one of some texts, or a plain value."""
    if isinstance(hint, type) and is_dataclass(hint):
        return _read_section(hint, value, f"{name}.")
    choices: tuple[object, ...] = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if float in choices and type(value) is int:
        return float(value)
    if any(_fits(choice, value) for choice in choices):
        return value
    raise ConfigError(f"The setting '{name}' is {value!r}; it must be {' or '.join(map(_describe, choices))}.")


def _fits(choice: object, value: object) -> bool:
    """Whether the value is exactly of this type: true is not 1 here."""
    if get_origin(choice) is Literal:
        return isinstance(value, str) and value in get_args(choice)
    return type(value) is choice


def _describe(choice: object) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "null"}
    if get_origin(choice) is Literal:
        return f"one of {', '.join(get_args(choice))}"
    return next(words for kind, words in names.items() if choice is kind)
