"""The configuration as JSON and back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.config import NARROW, Config, NoiseConfig, fast, paper
from models.errors import ConfigError
from models.storage.config_json import FORMAT, config_from_json, config_to_json

FORMAT_1, FORMAT_2, FORMAT_3 = (Path(__file__).parent / f"config_format_{number}.json" for number in (1, 2, 3))
TODAY = {"plausible": "jury"}
GONE = ("scout", "settle_steps", "settle_rate")
"""Of parts that are gone"""


def settings(document: dict[str, Any]) -> dict[str, Any]:
    """Every setting by its place, under today's names"""
    found: dict[str, Any] = {}
    for name, value in document.items():
        if name in GONE:
            continue
        name = TODAY.get(name, name)
        found |= (
            {f"{name}.{key}": v for key, v in settings(value).items()} if isinstance(value, dict) else {name: value}
        )
    return found


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
        ("residuals", "ridges", 0.1, "The setting 'residuals.ridges' is 0.1; it must be a list."),
        ("residuals", "ridges", ["x"], "The setting 'residuals.ridges' is 'x'; it must be a number."),
        ("residuals", "ridges", [], "residuals.ridges is empty; give at least one number."),
        ("noise", "tau", 0.2, "The configuration has the unknown setting 'noise.tau': use the recourse that trained"),
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


def test_a_model_of_the_first_format_is_read_for_ever() -> None:
    """The file was written once, by format 1. Does this fail? The new setting wants an entry in `LATER`."""
    document = json.loads(FORMAT_1.read_text())
    config = config_from_json(document, 1)
    assert config.surrogate.votes is False and config.flow.solver == "dopri5"
    assert config.flow.context is None, "its networks are what they were"
    kept = settings(config_to_json(config))
    assert {name: kept[name] for name in settings(document)} == settings(document)


def test_a_model_of_the_second_format_has_one_head_for_all_votes() -> None:
    document = json.loads(FORMAT_2.read_text())
    config = config_from_json(document, 2)
    assert config.surrogate.heads == 1 and config.surrogate.width == NARROW
    assert (config.flow.solver, config.flow.steps) == ("midpoint", 2), "its paths are what they were"
    kept = settings(config_to_json(config))
    assert {name: kept[name] for name in settings(document)} == settings(document)


def test_old_names_of_the_training_are_read() -> None:
    document = json.loads(FORMAT_3.read_text())
    document["surrogate"]["plausible"] = False
    config = config_from_json(document, 3)
    assert config.surrogate.jury is False and config.jury == fast().jury


def test_settings_of_parts_that_are_gone_are_read_over_in_old_documents_only() -> None:
    document = json.loads(FORMAT_3.read_text())
    assert "scout" in document and "settle_steps" in document["distill"]
    config = config_from_json(document, 3)
    assert config.flow.solver == "ralston3" and config.search == fast().search
    assert document["surrogate"]["heads"] is None and config.surrogate.heads == 1
    with pytest.raises(ConfigError, match="unknown setting 'scout'"):
        config_from_json(document)


def test_a_list_of_numbers_is_read_back() -> None:
    document = json.loads(json.dumps(config_to_json(fast())))
    assert config_from_json(document) == fast()
    document["search"]["anchors"]["fractions"] = 1.0
    with pytest.raises(ConfigError, match=r"'search\.anchors\.fractions' is 1\.0; it must be a list"):
        config_from_json(document)


def test_settings_that_came_later_are_filled_in() -> None:
    """As if `flow.steps` had come with format 2, and `noise` and `flow.adjoint` with format 3."""
    later = ({"flow.steps": 7}, {"noise": config_to_json(paper())["noise"], "flow.adjoint": True})
    oldest, older = changed("flow", "steps", 4), changed("flow", "steps", 4)
    for document in (oldest, older):
        del document["noise"], document["flow"]["adjoint"]
    del oldest["flow"]["steps"]
    assert config_from_json(oldest, 1, later).flow == replace(fast().flow, steps=7, adjoint=True)
    assert config_from_json(older, 2, later).flow == replace(fast().flow, steps=4, adjoint=True)
    assert config_from_json(oldest, 1, later).noise == paper().noise
    with pytest.raises(ConfigError, match=r"lacks the setting 'flow\.steps', which its format has"):
        config_from_json(oldest, 2, later)
    with pytest.raises(ConfigError, match="lacks the setting 'noise'"):
        config_from_json(older, 3, later)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (FORMAT + 1, f"has the format {FORMAT + 1}, and this recourse reads up to {FORMAT}: use the one that trained"),
        (0, "The format of the configuration is 0; it must be a whole number from 1"),
        ("1", "The format of the configuration is '1'; it must be a whole number"),
        (True, "The format of the configuration is True; it must be a whole number"),
    ],
)
def test_a_format_that_we_do_not_know(written: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_from_json(config_to_json(fast()), written)


def test_a_whole_number_will_do_for_a_number() -> None:
    config = config_from_json(changed("noise", "ratio", 1))
    assert config.noise.ratio == 1.0 and isinstance(config.noise.ratio, float)
