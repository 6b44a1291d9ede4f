"""Typed reads from a JSON document that a person may have written by hand; a wrong type is a SchemaError."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import ArtifactError, SchemaError


def read_mapping(value: object, what: str) -> Mapping[str, object]:
    """`value` as an object with text keys."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise SchemaError(f"Expected {what} to be an object with text keys, not {value!r}.")
    return value


def read_text(document: Mapping[str, object], key: str, owner: str) -> str:
    value = document.get(key)
    if not isinstance(value, str):
        raise SchemaError(f"Expected '{key}' of {owner} to be text, not {value!r}.")
    return value


def read_texts(document: Mapping[str, object], key: str, owner: str) -> tuple[str, ...]:
    value = document.get(key)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise SchemaError(f"Expected '{key}' of {owner} to be a list of texts, not {value!r}.")
    return tuple(value)


def read_number(document: Mapping[str, object], key: str, owner: str) -> float:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(f"Expected '{key}' of {owner} to be a number, not {value!r}.")
    try:
        return float(value)
    except OverflowError as error:
        raise SchemaError(f"Expected '{key}' of {owner} to be a number that is not so large.") from error


def read_flag(document: Mapping[str, object], key: str, owner: str) -> bool:
    value = document.get(key)
    if not isinstance(value, bool):
        raise SchemaError(f"Expected '{key}' of {owner} to be true or false, not {value!r}.")
    return value


def read_choice(document: Mapping[str, object], key: str, owner: str, choices: Sequence[str]) -> str:
    value = document.get(key)
    if not isinstance(value, str) or value not in choices:
        raise SchemaError(f"Expected '{key}' of {owner} to be one of {', '.join(choices)}, not {value!r}.")
    return value


def read_object(path: Path, advice: str = "fetch the model again") -> Mapping[str, object]:
    """The JSON object in a file that this program wrote; ArtifactError, with the advice, where there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"The file '{path}' is missing or is not JSON; {advice}.") from error
    if not isinstance(document, dict):
        raise ArtifactError(f"The file '{path}' does not hold a JSON object; {advice}.")
    return document
