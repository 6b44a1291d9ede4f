"""Requests with constraints and targets of their own, searched together."""

import numpy as np
import pytest

from models.config import SearchConfig
from models.data.schema import Direction
from models.errors import ConstraintError
from models.model import RecourseModel
from models.search.search import explain, search, target_codes
from models.space.constraints import Constraints, join
from tests.models.tiny import Task

QUICK = SearchConfig(candidates=6, polish_rounds=2)
REQUESTS = (
    Constraints(),
    Constraints(immutable=frozenset({"income"})),
    Constraints(ranges={"purpose": ("car", "home")}, directions={"debt_ratio": Direction.DOWN}),
    Constraints(directions={"education": Direction.UP}),
)


def test_joined_requests_are_answered_as_if_alone(tiny_model: RecourseModel, loans_task: Task) -> None:
    records = loans_task.test.records[:12].reshape(4, 3, -1)
    targets = [target_codes(tiny_model, name, 3) for name in (*tiny_model.classes, *tiny_model.classes)][:4]
    prepared = [tiny_model.prepared(asked, part) for asked, part in zip(REQUESTS, records, strict=True)]
    each = [target[part.rows] for target, part in zip(targets, prepared, strict=True)]
    together = search(tiny_model, np.concatenate(each), join([part.feasible for part in prepared]), QUICK)
    alone = [
        answer
        for asked, part, target in zip(REQUESTS, records, targets, strict=True)
        for answer in explain(tiny_model, part, target, asked, QUICK)
        if answer.error is None
    ]
    assert len(together) > 8
    assert together == alone


def test_shared_categories_stay_one_copy(tiny_model: RecourseModel, loans_task: Task) -> None:
    plain = [tiny_model.prepared(Constraints(), loans_task.test.records[i : i + 2]).feasible for i in (0, 2)]
    assert len(join(plain)) == 4
    if all(part.levels.strides[0] == 0 for part in plain):
        assert join(plain).levels.strides[0] == 0


def test_a_record_that_fits_no_constraint_is_told_apart(tiny_model: RecourseModel, loans_task: Task) -> None:
    records = loans_task.test.records[:6]
    income = tiny_model.encoder.schema.index("income")
    middle = float(np.nanmedian(records[:, income]))
    asked = Constraints(immutable=frozenset({"income"}), ranges={"income": (middle, None)})
    prepared = tiny_model.prepared(asked, records)
    below = records[:, income] < middle
    assert below.any()
    assert [error is not None for error in prepared.errors] == below.tolist()
    assert prepared.rows.tolist() == np.flatnonzero(~below).tolist()
    assert len(prepared.feasible) == len(prepared.rows)


def test_what_no_record_could_meet_is_raised(tiny_model: RecourseModel, loans_task: Task) -> None:
    with pytest.raises(ConstraintError, match="no feature"):
        tiny_model.prepared(Constraints(immutable=frozenset({"shoe size"})), loans_task.test.records[:1])


def test_a_direction_against_the_schemas_is_refused_not_taken_for_frozen(
    tiny_model: RecourseModel, loans_task: Task
) -> None:
    schema = tiny_model.encoder.schema
    opposite = {Direction.UP: Direction.DOWN, Direction.DOWN: Direction.UP}
    one_way = [feature for feature in schema.features if feature.direction in opposite and not feature.immutable]
    assert one_way
    for feature in one_way:
        asked = Constraints(directions={feature.name: opposite[feature.direction]})
        with pytest.raises(ConstraintError, match=f"'{feature.name}' may only go {feature.direction} by the model's"):
            tiny_model.prepared(asked, loans_task.test.records[:2])
        tiny_model.prepared(Constraints(directions={feature.name: feature.direction}), loans_task.test.records)
