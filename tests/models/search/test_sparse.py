"""Few changes and weights: what is answered where only so many features may change, and where some are hard to."""

from dataclasses import replace

import numpy as np
import pytest

from models.config import SearchConfig
from models.errors import ConstraintError
from models.model import RecourseModel
from models.search.answers import Status
from models.search.candidates import measure
from models.search.local_search import count_changes
from models.search.search import explain
from models.search.selection import best_at_cost_weight
from models.search.sparse import sparse_candidates
from models.space.constraints import Constraints, compile_constraints, join
from tests.fakes.plane import linear_model, plane
from tests.models.tiny import Scorecards, Task, other_class

YES, HOME = np.ones(1, dtype=np.int64), np.zeros((1, 4))
NAMES, SLOPE = ("a", "b", "c", "d"), [0.8, 2.0, 1.0, 1.5]
WEIGHT = np.array([0.05])


@pytest.fixture(scope="module")
def model() -> RecourseModel:
    return linear_model(plane(*NAMES), SLOPE, bias=-6.0)


@pytest.mark.parametrize(("most", "changed"), [(1, "b"), (2, "bd"), (3, "bcd")])
def test_the_most_useful_features_change(model: RecourseModel, most: int, changed: str) -> None:
    feasible = compile_constraints(model.encoder.schema, Constraints(max_changes=most), HOME)
    start = measure(model, np.array([[[2.0, 2.0, 2.0, 2.0]]]), YES, feasible)
    best = best_at_cost_weight(model, start, YES, feasible, WEIGHT, 0.0, rounds=30)
    assert [name for name, value in zip(NAMES, best.records[0, 0], strict=True) if value] == list(changed)


def test_candidates_keep_their_most_useful_changes_and_the_record_is_one(model: RecourseModel) -> None:
    feasible = compile_constraints(model.encoder.schema, Constraints(max_changes=2), HOME)
    some = measure(model, np.array([[[0.5, 2.0, 0.1, 1.0], [0.0, 9.0, -3.0, 0.0]]]), YES, feasible)
    weight = np.array([0.1])
    found = {tuple(record) for record in sparse_candidates(model, some, YES, feasible, weight).records[0].tolist()}
    # The first is the best at this weight, and b and d gain most of it. The second is the surest; it loses by c and
    # keeps it: of two changes that are allowed local search takes back what is of no use.
    assert found == {(0.0, 2.0, 0.0, 1.0), (0.0, 9.0, -3.0, 0.0), (0.0, 0.0, 0.0, 0.0)}


def test_what_has_to_change_is_among_the_changes(model: RecourseModel) -> None:
    constraints = Constraints(ranges={"a": (3.0, 9.0)}, max_changes=1)
    feasible = compile_constraints(model.encoder.schema, constraints, HOME)
    some = measure(model, np.array([[[3.0, 3.0, 0.0, 0.0]]]), YES, feasible)
    best = best_at_cost_weight(model, some, YES, feasible, WEIGHT, 0.0, rounds=8)
    assert best.records[0, 0, 0] >= 3.0 and count_changes(best.records[0, 0], HOME[0]) == 1


def test_more_forced_changes_than_allowed_are_one_sentence(model: RecourseModel) -> None:
    constraints = Constraints(ranges={"a": (3.0, 9.0), "b": (1.0, 9.0)}, max_changes=1)
    with pytest.raises(ConstraintError, match=r"Row 1: 2 features have to change .* and at most 1 may"):
        compile_constraints(model.encoder.schema, constraints, HOME)


@pytest.mark.parametrize("most", [0, -1, True, 2.0])
def test_a_limit_that_makes_no_sense_is_refused(model: RecourseModel, most: int) -> None:
    with pytest.raises(ConstraintError, match="max_changes is"):
        compile_constraints(model.encoder.schema, Constraints(max_changes=most), HOME)


def test_a_hard_feature_is_left_to_others(model: RecourseModel) -> None:
    """By itself b is the steepest; at ten times the cost it stays."""
    free, hard = (
        compile_constraints(model.encoder.schema, Constraints(weights=weights), HOME) for weights in ({}, {"b": 10.0})
    )
    start = np.array([[[2.0, 2.0, 2.0, 2.0]]])
    easy, other = (
        best_at_cost_weight(model, measure(model, start, YES, each), YES, each, WEIGHT, 0.0, rounds=30).records[0, 0]
        for each in (free, hard)
    )
    assert easy[1] == max(easy) and other[1] < 0.1 * easy[1] and other[3] > easy[3]


def test_the_schema_has_a_limit_and_a_request_lifts_it(model: RecourseModel) -> None:
    schema = replace(model.encoder.schema, max_changes=2)
    by_schema, lifted, own = (
        compile_constraints(schema, constraints, HOME).limits()[0]
        for constraints in (Constraints(), Constraints(max_changes=None), Constraints(max_changes=3))
    )
    assert (by_schema, lifted, own) == (2, 4, 3)


def test_requests_with_and_without_a_limit_share_a_search(model: RecourseModel) -> None:
    parts = [compile_constraints(model.encoder.schema, Constraints(max_changes=most), HOME) for most in (None, 1)]
    joined = join([*parts, compile_constraints(model.encoder.schema, Constraints(weights={"a": 2.0}), HOME)])
    assert joined.limits().tolist() == [4, 1, 4] and joined.hardness()[:, 0].tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("queries", [0, 6])
def test_no_answer_changes_more_and_each_is_the_one_of_the_record_alone(
    tiny_model: RecourseModel, loans_task: Task, queries: int
) -> None:
    records, target = loans_task.test.records[:40], other_class(loans_task.test.labels[:40], 2)
    config = SearchConfig(10, 0.02, min_expected_agreement=0.0, k=2, min_agreement=0.6, max_queries=queries)
    few = Constraints(max_changes=2)
    found = explain(tiny_model, records, target, few, config, Scorecards(loans_task.encoder))
    given = [row for row, each in enumerate(found) if each.counterfactuals]
    assert len(given) >= 10 and {each.status for each in found} - {Status.INFEASIBLE, Status.ALREADY_TARGET}
    for way in (way for each in found for way in each.counterfactuals):
        assert 1 <= len(way.changes) <= 2
    for row in given[:3]:
        one = slice(row, row + 1)
        cards = Scorecards(loans_task.encoder)
        assert explain(tiny_model, records[one], target[one], few, config, cards) == [found[row]]
