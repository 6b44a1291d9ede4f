"""The training request: checked when it is made, and the same after a trip through the job's row."""

import json
from typing import get_args
from uuid import uuid4

import pytest
from pydantic import ValidationError

from app.train.request import MEMBER_NAMES, QUERIES_EACH, Encoding, TrainRequest, TrainSettings
from models.config import fast, paper
from models.ensemble import recipes
from models.errors import ConfigError
from models.space import codings

REQUEST = TrainRequest(model="loans", dataset_id=uuid4())
STORED_BY_0_1 = {
    "dataset_id": "0b9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11",
    "label": None,
    "overrides": {"features": {"age": {"direction": "up"}}},
    "ensemble": None,
    "members": ["knn", "forest"],
    "mode": "tuned",
    "preset": "paper",
    "effort": 0.5,
    "queries": 9,
    "top_features": 3,
    "seed": 7,
    "activate": False,
    "oracle_records": None,
}
"""The document of a job as version 0.1.0 wrote it."""


def test_the_names_are_those_of_the_method() -> None:
    assert MEMBER_NAMES == recipes.MEMBER_NAMES
    assert get_args(Encoding) == codings.ENCODINGS


def test_the_description_tells_the_queries_of_a_comparison() -> None:
    described = TrainRequest.model_json_schema()["properties"]["oracle_records"]["description"]
    assert QUERIES_EACH == 111 and "up to 111 queries" in described


def test_it_comes_back_from_the_job_s_row() -> None:
    full = TrainRequest.of_job(STORED_BY_0_1, "loans")
    assert (full.members, full.mode, full.seed, full.activate) == (("knn", "forest"), "tuned", 7, False)
    assert full.document() == STORED_BY_0_1
    for request in (REQUEST, full):
        assert TrainRequest.of_job(json.loads(json.dumps(request.document())), "loans") == request


def test_a_job_from_before_there_was_a_choice_keeps_the_circle() -> None:
    """It may have begun with it, and a checkpoint of one encoding does not fit the other."""
    for preset in ("fast", "paper"):
        assert TrainRequest.of_job(STORED_BY_0_1 | {"preset": preset}, "loans").encoding == "circle"
    assert REQUEST.encoding == REQUEST.document()["encoding"] == "simplex"
    for preset, usual in (("fast", "simplex"), ("paper", "circle")):
        assert TrainSettings.read({"preset": preset}).encoding == usual
        for encoding in ("simplex", "circle"):
            asked = TrainRequest.model_validate(
                {"model": "m", "dataset": str(uuid4()), "preset": preset, "encoding": encoding}
            )
            assert TrainRequest.of_job(asked.document(), "m") == asked and asked.encoding == encoding


def test_a_later_version_s_field_is_left_out() -> None:
    assert TrainRequest.of_job(STORED_BY_0_1 | {"colour": "red"}, "loans").document() == STORED_BY_0_1


def test_a_job_that_0_1_stored_with_members_that_it_ignored_is_read() -> None:
    stored = STORED_BY_0_1 | {"ensemble": "scores"}
    request = TrainRequest.of_job(stored, "loans")
    assert request.ensemble == "scores" and not {"members", "mode"} & request.document().keys()
    assert TrainRequest.of_job(request.document(), "loans") == request
    assert TrainRequest.of_job(STORED_BY_0_1 | {"members": ["knn", "knn"]}, "loans").members == ("knn",)
    body = {"model": "loans", "dataset": str(uuid4()), "ensemble": "scores", "members": None}
    assert TrainRequest.model_validate(body).ensemble == "scores"


def test_the_body_names_its_data_set_either_way() -> None:
    for name in ("dataset", "dataset_id"):
        body = {"model": "loans", name: str(REQUEST.dataset_id), "members": None}
        assert TrainRequest.model_validate(body) == REQUEST
    with pytest.raises(ValidationError, match="colour"):
        TrainRequest.model_validate({"model": "loans", "dataset": str(uuid4()), "colour": "red"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": ["knn", "oracle"]}, "members.1 is 'oracle': input should be 'knn', "),
        ({"members": []}, "members is "),
        ({"mode": "slow"}, "mode is 'slow'"),
        ({"preset": "best"}, "preset is 'best'"),
        ({"encoding": "sphere"}, "encoding is 'sphere': input should be 'simplex' or 'circle'"),
        ({"effort": 0.0}, "effort is 0.0"),
        ({"effort": 11.0}, "effort is 11.0"),
        ({"queries": -1}, "queries is -1"),
        ({"top_features": 0}, "top_features is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": "x"}, "seed is 'x'"),
    ],
)
def test_nonsense_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainRequest.of_job(STORED_BY_0_1 | change, "loans")


def test_the_settings_become_the_method_s() -> None:
    assert TrainSettings().to_config("cpu") == fast()
    config = TrainSettings(preset="paper", effort=0.5, top_features=3).to_config("cuda:1")
    assert (config.device, config.top_features, config.queries) == ("cuda:1", 3, paper().queries)
    assert config.generator.epochs == 400


def test_overrides_are_as_long_as_a_schema_s_changes_and_no_longer() -> None:
    """They are kept for ever: 500 features with bounds and categories fit, 15 MB do not."""
    change = {"direction": "up", "lower": 0.5, "upper": 100_000.25, "categories": [f"category-{n}" for n in range(10)]}
    many = {"features": {f"feature-{number}": change for number in range(500)}}
    assert TrainRequest(model="m", dataset_id=uuid4(), overrides=many).overrides == many
    with pytest.raises(ValidationError, match="bytes as JSON, 200000 is the limit: name only what changes"):
        TrainRequest(model="m", dataset_id=uuid4(), overrides={"features": {"income": {"note": "x" * 200_000}}})
