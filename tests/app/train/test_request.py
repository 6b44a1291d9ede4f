"""The training request: checked when it is made, and the same after a trip through the job's row."""

import json
from dataclasses import replace
from uuid import uuid4

import pytest

from app.train.request import MEMBER_NAMES, TrainRequest
from models.ensemble import recipes
from models.errors import ConfigError, SchemaError

REQUEST = TrainRequest(uuid4())


def test_the_names_are_those_of_the_method() -> None:
    assert MEMBER_NAMES == recipes.MEMBER_NAMES


def test_it_comes_back_from_json() -> None:
    overrides = {"features": {"age": {"direction": "up"}}}
    full = TrainRequest(uuid4(), "y", overrides, "scores", ("knn",), "tuned", "paper", 0.5, 9, 3, 7, False)
    for request in (REQUEST, full):
        assert TrainRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": ("knn", "oracle")}, "no ensemble member 'oracle'"),
        ({"members": ()}, "at least one member"),
        ({"mode": "slow"}, "no ensemble mode 'slow'"),
        ({"preset": "best"}, "no preset 'best'"),
        ({"effort": 0.0}, "effort is 0.0"),
        ({"effort": 11.0}, "effort is 11.0"),
        ({"queries": -1}, "query limit -1 is negative"),
        ({"top_features": 0}, "top_features is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_nonsense_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(REQUEST, **change)  # type: ignore[arg-type]  # wrong values are the point


def test_a_row_that_is_not_a_request() -> None:
    with pytest.raises(SchemaError, match="'seed' of the training request"):
        TrainRequest.from_json(REQUEST.to_json() | {"seed": "x"})
