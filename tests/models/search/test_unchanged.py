"""To change nothing is never a way: an unchanged record is in the target class already, or it has no answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.arrays import Records
from models.config import SearchConfig
from models.data.records import from_records
from models.data.schema import Direction
from models.model import RecourseModel
from models.search.answers import Explanation, Status
from models.search.search import explain, target_codes
from models.space.constraints import Constraints, Range
from tests.models.tiny import TINY, Scorecards, Task, other_class, random_model

COUNT = 12


def faults(task: Task, records: Records, found: list[Explanation]) -> list[str]:
    """What an answer must not be, read from its raw values alone."""
    wrong = []
    for own, each in zip(from_records(task.encoder.schema, records), found, strict=True):
        for way in each.counterfactuals:
            if way.record == own or not way.changes:
                wrong.append(f"{each.status}: nothing changes")
            if any(change.before == change.after for change in way.changes):
                wrong.append(f"{each.status}: a change from a value to itself")
        if each.status in (Status.ROBUST, Status.VALID) and not each.counterfactuals:
            wrong.append(f"{each.status} without a way")
        if each.status is Status.ALREADY_TARGET and each.counterfactuals:
            wrong.append("a way where none is needed")
        if (each.status is Status.INFEASIBLE) != (each.diagnosis is not None):
            wrong.append(f"{each.status} with the diagnosis {each.diagnosis}")
    return wrong


@st.composite
def wishes(draw: st.DrawFn, task: Task) -> Constraints:
    """Some features frozen, or all but one, or all; some one-way; some in a range that may leave the record out."""
    features = task.encoder.schema.features
    names = [feature.name for feature in features]
    frozen = draw(st.one_of(st.just(set(names)), st.sets(st.sampled_from(names)), st.just(set(names[1:]))))
    ranges: dict[str, Range] = {}
    directions: dict[str, Direction] = {}
    for j, feature in enumerate(features):
        if feature.name in frozen or feature.immutable or feature.direction is not Direction.ANY:
            continue
        kind = draw(st.integers(0, 5))
        if kind == 0 and not feature.is_categorical:
            low, high = np.nanquantile(task.training.records[:, j], [0.3, 0.9])
            ranges[feature.name] = (float(low), float(high))
        elif kind == 1 and feature.is_categorical:
            ranges[feature.name] = feature.categories[:2]
        elif kind == 2 and not feature.is_categorical:
            directions[feature.name] = draw(st.sampled_from([Direction.UP, Direction.DOWN]))
    return Constraints(frozenset(frozen), ranges, directions)


def off_grid(task: Task) -> Records:
    """What takes each number (F,) off the grid of suggestions, where that is coarser than whole numbers"""
    return np.array([float(not each.is_categorical and each.step > 1) for each in task.encoder.schema.features])


@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_answer_is_the_record_itself(data: st.DataObject, tiny_model: RecourseModel, loans_task: Task) -> None:
    constraints = data.draw(wishes(loans_task))
    config = SearchConfig(
        candidates=data.draw(st.sampled_from([1, 8])),
        cost_weight=data.draw(st.sampled_from([0.01, 0.1, 1.0])),
        min_expected_agreement=data.draw(st.sampled_from([0.0, 0.5, 0.9])),
        k=data.draw(st.sampled_from([1, 3])),
        min_agreement=data.draw(st.sampled_from([0.5, 0.8, 1.0])),
        max_queries=data.draw(st.sampled_from([0, 1, 2, 10, 25])),
        polish_rounds=data.draw(st.sampled_from([0, 3])),
    )
    model = random_model(loans_task.encoder, TINY) if data.draw(st.booleans()) else tiny_model
    start = data.draw(st.integers(0, len(loans_task.test) - COUNT))
    records = loans_task.test.records[start : start + COUNT] + data.draw(st.sampled_from([0, 1])) * off_grid(loans_task)
    other = other_class(loans_task.test.labels[start : start + COUNT], 2)
    target = other if data.draw(st.booleans()) else target_codes(model, "approved", COUNT)
    cards = Scorecards(loans_task.encoder)
    found = explain(model, records, target, constraints, config, cards if config.max_queries else None)
    assert faults(loans_task, records, found) == []


@pytest.mark.parametrize("queries", [0, 1, 10])
def test_where_everything_is_frozen_the_diagnosis_names_what_is_frozen(
    tiny_model: RecourseModel, loans_task: Task, queries: int
) -> None:
    schema = loans_task.encoder.schema
    records, cards = loans_task.test.records, Scorecards(loans_task.encoder)
    frozen = Constraints(immutable=frozenset(schema.names))
    config = SearchConfig(candidates=6, max_queries=queries)
    found = explain(tiny_model, records, target_codes(tiny_model, "approved", len(records)), frozen, config, cards)
    assert {each.status for each in found} <= {Status.INFEASIBLE, Status.ALREADY_TARGET}
    lost = [each for each in found if each.status is Status.INFEASIBLE]
    free = [each.name for each in schema.features if not each.immutable and not each.protected]
    assert len(lost) >= 10
    for each in lost:
        assert each.diagnosis is not None and not each.counterfactuals
        assert all(name in each.diagnosis.advice for name in free)


def test_a_record_that_some_models_accept_is_not_already_there_when_all_are_asked_for(
    tiny_model: RecourseModel, loans_task: Task
) -> None:
    """Two of three accept it as it is, and all three are wanted: it has no way, and the diagnosis says who dissents."""
    records, cards = loans_task.test.records, Scorecards(loans_task.encoder)
    target = target_codes(tiny_model, "approved", len(records))
    accepts = Scorecards(loans_task.encoder).predict_proba(records).argmax(axis=2) == target
    frozen = Constraints(immutable=frozenset(loans_task.encoder.schema.names))
    strict = explain(tiny_model, records, target, frozen, SearchConfig(max_queries=5), cards)
    mild = explain(tiny_model, records, target, frozen, SearchConfig(max_queries=5, min_agreement=0.6), cards)
    torn = np.flatnonzero(accepts.sum(axis=0) == 2)
    assert len(torn) >= 3
    for row in torn:
        diagnosis = strict[row].diagnosis
        assert strict[row].status is Status.INFEASIBLE and diagnosis is not None
        assert diagnosis.best_agreement == pytest.approx(2 / 3) and diagnosis.verified
        assert diagnosis.dissenting == tuple(
            n for n, yes in zip(cards.member_names, accepts[:, row], strict=True) if not yes
        )
        assert mild[row].status is Status.ALREADY_TARGET
