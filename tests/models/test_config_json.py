"""The configuration as JSON and back."""

import json
from dataclasses import replace
from typing import Any

import pytest

from models.config import Config, NoiseConfig, fast, paper
from models.config_json import config_from_json, config_to_json
from models.errors import ConfigError


@pytest.mark.parametrize(
    "config", [fast(), paper(), replace(fast(), top_features=3, device="cuda:1", noise=NoiseConfig(bound=3.5))]
)
def test_round_trip(config: Config) -> None:
    assert config_from_json(json.loads(json.dumps(config_to_json(config)))) == config


def changed(section: str | None, key: str, value: object) -> dict[str, Any]:
    document: dict[str, Any] = config_to_json(fast())
    (document if section is None else document[section])[key] = value
    return document


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("flow", "steps", "four", "The setting 'flow.steps' is 'four'; it must be a whole number."),
        ("flow", "steps", True, "The setting 'flow.steps' is True; it must be a whole number."),
        ("flow", "steps", 4.0, "The setting 'flow.steps' is 4.0; it must be a whole number."),
        ("flow", "steps", 0, "flow.steps is 0; it must be a finite number of at least 1."),
        ("flow", "solver", "heun", "The setting 'flow.solver' is 'heun'; it must be one of euler, midpoint,"),
        ("flow", "solver", ["rk4"], "The setting 'flow.solver' is ['rk4']; it must be one of"),
        ("flow", "adjoint", 1, "The setting 'flow.adjoint' is 1; it must be true or false."),
        ("noise", "bound", "x", "The setting 'noise.bound' is 'x'; it must be a number or null."),
        ("noise", "ratio", None, "The setting 'noise.ratio' is None; it must be a number."),
        ("noise", "tau", 0.2, "The configuration has the unknown setting 'noise.tau'"),
        (None, "flow", [4], "Expected the section 'flow' of the configuration to be an object, not [4]."),
        (None, "device", 7, "The setting 'device' is 7; it must be text."),
        (None, "extra", 7, "The configuration has the unknown setting 'extra'"),
    ],
)
def test_what_is_wrong_is_named(section: str | None, key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_json(changed(section, key, value))
    assert str(caught.value).startswith(message)


def test_a_setting_that_lacks() -> None:
    document = changed("flow", "steps", 4)
    del document["flow"]["steps"]
    with pytest.raises(ConfigError, match=r"lacks the setting 'flow\.steps'"):
        config_from_json(document)
    with pytest.raises(ConfigError, match="Expected the configuration to be an object, not None"):
        config_from_json(None)


def test_a_whole_number_will_do_for_a_number() -> None:
    config = config_from_json(changed("noise", "ratio", 1))
    assert config.noise.ratio == 1.0 and isinstance(config.noise.ratio, float)
