"""docker-compose.yml as the tests read it: services with their anchors resolved and their variables filled in."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

PROJECT = Path(__file__).parents[2]
COMPOSE = PROJECT / "docker-compose.yml"
Service: TypeAlias = dict[str, Any]
"""YAML: whatever is in the file."""

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<sign>[-?])(?P<rest>[^}]*))?\}")


def services() -> dict[str, Service]:
    found: dict[str, Service] = document()["services"]
    return found


def document() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return read


def required_variables() -> set[str]:
    """What compose refuses to start without."""
    text = COMPOSE.read_text(encoding="utf-8")
    return {match["name"] for match in _VARIABLE.finditer(text) if match["sign"] == "?"}


def command_of(service: str) -> list[str]:
    """The exact command line of a container."""
    return [str(word) for word in services()[service]["command"]]


def health_command_of(service: str) -> list[str]:
    kind, *command = services()[service]["healthcheck"]["test"]
    assert kind == "CMD", f"the health check of {service} needs a shell"
    return [str(word) for word in command]


def environment_of(service: str, variables: Mapping[str, str]) -> dict[str, str]:
    """A container's environment, as compose makes it from the variables of .env."""
    return {name: fill_in(str(value), variables) for name, value in services()[service]["environment"].items()}


def fill_in(text: str, variables: Mapping[str, str]) -> str:
    """${NAME}, ${NAME:-default} and ${NAME:?message}, as compose reads them."""

    def value(match: re.Match[str]) -> str:
        given = variables.get(match["name"], "")
        if given or match["sign"] is None:
            return given
        if match["sign"] == "?":
            raise KeyError(f"{match['name']} {match['rest']}")
        return str(match["rest"])

    return _VARIABLE.sub(value, text)
