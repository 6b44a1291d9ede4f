"""The configuration as a plain dict for JSON, and back: every key must be known and of its type, and be there.

A model outlives the program that trained it: the settings have a format, and what came after a document's format is
filled in. What the document has and we do not know is refused: it would be left out in silence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from ..config import Config, SearchMethodConfig
from ..errors import ConfigError

Section = TypeVar("Section")
Filling: TypeAlias = Mapping[str, object]
"""Settings by their place, such as "flow.steps", or whole sections."""


def config_to_json(config: Config) -> dict[str, Any]:
    """A plain dict that json.dumps takes and `config_from_json` reads back unchanged."""
    return asdict(config, dict_factory=lambda pairs: {k: list(v) if isinstance(v, tuple) else v for k, v in pairs})


def _training_settings() -> Filling:
    """The settings that came with format 4, as they are by default: only a training reads them, a model does not."""
    places = {
        "surrogate": ("queried_batch", "warmup", "final_rate", "calibration_prior"),
        "generator": ("final_rate", "frozen_most", "bounded_share", "clip"),
        "distill": ("surrogate_rate_end", "generator_rate_end"),
    }
    whole = config_to_json(Config())
    single = {f"{name}.{key}": whole[name][key] for name, keys in places.items() for key in keys}
    return single | {name: whole[name] for name in ("acquisition", "jury", "residuals", "pseudo_labels", "selection")}


LATER: tuple[Filling, ...] = (
    {"flow.context": None},
    {"surrogate.heads": 1},
    {**_training_settings(), "search": asdict(SearchMethodConfig())},
)
"""The settings that each format after 1 added, with the values that keep an older model's behaviour.

A new setting in models/config needs a new entry at the end, such as {"flow.restarts": 0}; the format follows.
"""
FORMAT = 1 + len(LATER)

RENAMED: Mapping[int, Mapping[str, str]] = {
    4: {"surrogate.plausible": "jury"},
}
"""Settings that got another name: since which format, the old place (such as "distill.rounds") and the new name."""
DROPPED: Mapping[int, frozenset[str]] = {4: frozenset({"scout", "distill.settle_steps", "distill.settle_rate"})}
"""Settings of parts that are gone: since which format, the old places."""
REWORDED: Mapping[int, Mapping[tuple[str, object], object]] = {
    4: {("flow.solver", "ralston"): "ralston3", ("surrogate.heads", None): 1},
}
"""Values that got another name: since which format, the old place and value, and the new value."""


def config_from_json(document: object, written: object = FORMAT, later: Sequence[Filling] = LATER) -> Config:
    """The configuration that `config_to_json` wrote in the format `written`; ConfigError names what is wrong first."""
    newest = 1 + len(later)
    if type(written) is not int or written < 1:
        raise ConfigError(f"The format of the configuration is {written!r}; it must be a whole number from 1.")
    if written > newest:
        fact = f"The configuration has the format {written}, and this recourse reads up to {newest}"
        raise ConfigError(f"{fact}: use the one that trained the model, or a newer one.")
    filling = {place: value for entry in later[written - 1 :] for place, value in entry.items()}
    return _read_section(Config, _rename(document, written), "", filling)


def _rename(document: object, written: int, prefix: str = "") -> object:
    """The document of the format `written` with the names of today"""
    if not isinstance(document, Mapping):
        return document
    names = {old: new for since, pairs in RENAMED.items() if written < since for old, new in pairs.items()}
    gone = {place for since, places in DROPPED.items() if written < since for place in places}
    words = {old: new for since, pairs in REWORDED.items() if written < since for old, new in pairs.items()}
    renamed: dict[object, object] = {}
    for key, value in document.items():
        place = f"{prefix}{key}"
        if place in gone:
            continue
        known = words.get((place, value), value) if isinstance(value, str | None) else value
        renamed[names.get(place, key)] = _rename(known, written, f"{place}.")
    return renamed


def _read_section(kind: type[Section], document: object, prefix: str, filling: Filling) -> Section:
    """One dataclass from an object; `prefix` is its place in the configuration, such as "flow."."""
    place = f"the section '{prefix[:-1]}' of the configuration" if prefix else "the configuration"
    if not isinstance(document, Mapping):
        raise ConfigError(f"Expected {place} to be an object, not {document!r}.")
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if unknown := sorted(set(document) - set(names), key=str):
        fact = f"The configuration has the unknown setting '{prefix}{unknown[0]}'"
        raise ConfigError(f"{fact}: use the recourse that trained the model, or a newer one.")
    whole = {name: filling[prefix + name] for name in names if prefix + name in filling} | dict(document)
    if missing := [name for name in names if name not in whole]:
        raise ConfigError(f"The configuration lacks the setting '{prefix}{missing[0]}', which its format has.")
    hints = get_type_hints(kind)
    return kind(*(_read_value(hints[name], whole[name], prefix + name, filling) for name in names))


def _read_value(hint: object, value: object, name: str, filling: Filling) -> object:
    """The value as the setting's type: a section, one of some texts, or a plain value."""
    if isinstance(hint, type) and is_dataclass(hint):
        return _read_section(hint, value, f"{name}.", filling)
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"The setting '{name}' is {value!r}; it must be a list.")
        return tuple(_read_value(get_args(hint)[0], each, name, filling) for each in value)
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
