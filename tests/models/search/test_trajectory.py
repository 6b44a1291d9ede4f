"""The way to an answer starts at the applicant's own record, keeps the constraints, and ends at the answer."""

from itertools import pairwise

import numpy as np
import pytest

from models.config import SearchConfig, SearchMethodConfig
from models.data.records import check_record, from_records
from models.model import RecourseModel
from models.search.answers import PathPoint, Stage
from models.search.search import explain, target_codes
from models.search.trajectory import flow_paths, trace
from models.space.constraints import Constraints, violations
from tests.models.search.test_search import draw_constraints
from tests.models.tiny import TINY, Scorecards, Task, other_class, random_model

ORDER = [Stage.RECORD, Stage.FLOW, Stage.LOCAL_SEARCH, Stage.ANSWER]


def ways(
    model: RecourseModel, task: Task, constraints: Constraints, config: SearchConfig
) -> list[tuple[PathPoint, ...]]:
    """The way to each first answer, checked against what was answered."""
    schema, cards = model.encoder.schema, Scorecards(task.encoder)
    prepared = model.prepared(constraints, task.test.records)
    target = other_class(task.test.labels, 2)
    found = explain(model, task.test.records, target, constraints, config, cards)
    rows = np.array([place for place, row in enumerate(prepared.rows) if found[row].counterfactuals])
    if not len(rows):
        return []
    given = [found[row].counterfactuals[0] for row in prepared.rows[rows]]
    answers = np.concatenate([check_record(schema, each.record) for each in given])
    feasible = prepared.feasible.rows(rows)
    paths = trace(model, target[prepared.rows[rows]], feasible, answers, config.candidates, config.seed)
    for row, (own, answer, path) in enumerate(zip(from_records(schema, feasible.origin), given, paths, strict=True)):
        assert path[0].record == own and path[0].stage is Stage.RECORD and path[0].cost == 0.0
        assert path[-1].record == answer.record and path[-1].stage is Stage.ANSWER
        assert (path[-1].cost, path[-1].expected_agreement) == (answer.cost, answer.expected_agreement)
        assert [point.time for point in path] == np.linspace(0.0, 1.0, len(path)).tolist()
        places = [ORDER.index(point.stage) for point in path]
        assert places == sorted(places) and places.count(0) == places.count(3) == 1
        assert all(one.record != next_.record for one, next_ in pairwise(path))
        way = np.concatenate([check_record(schema, point.record) for point in path[1:]])
        limits = feasible.rows(np.full(len(way), row))
        assert not violations(schema, limits.origin, way, limits).any()
    return paths


@pytest.mark.parametrize("queries", [0, 10])
@pytest.mark.parametrize("k", [1, 3])
def test_every_way_leads_from_the_record_to_the_answer(
    tiny_model: RecourseModel, loans_task: Task, queries: int, k: int
) -> None:
    """With random constraints, missing values, several answers, and paths that end elsewhere."""
    random, config = np.random.default_rng(k + queries), SearchConfig(candidates=6, k=k, max_queries=queries)
    assert np.isnan(loans_task.test.records).any()
    found = [
        path
        for model in (tiny_model, random_model(loans_task.encoder, TINY))
        for constraints in (Constraints(), *(draw_constraints(loans_task, random) for _ in range(4)))
        for path in ways(model, loans_task, constraints, config)
    ]
    assert len(found) >= 60
    seen = {point.stage for path in found for point in path}
    assert seen == set(Stage)
    assert max(len(path) for path in found) <= 2 * SearchMethodConfig().path_points + 2


def test_a_way_is_the_same_alone_and_in_a_batch(loans_task: Task) -> None:
    model = random_model(loans_task.encoder, TINY)
    frozen, records = Constraints(immutable=frozenset({"income"})), loans_task.test.records[:5]
    feasible = model.prepared(frozen, records).feasible
    target = target_codes(model, model.classes[0], 5)
    answers = model.encoder.decode(model.encoder.encode(loans_task.test.records[5:10]), feasible=feasible)
    together = trace(model, target, feasible, answers, count=4, seed=1)
    for row, path in enumerate(together):
        assert path == trace(model, target[:1], feasible.row(row), answers[row : row + 1], 4, 1)[0]
    assert any(len(path) > 4 for path in together)


def test_the_first_path_of_the_flow_starts_at_the_record_itself(loans_task: Task) -> None:
    model, records = random_model(loans_task.encoder, TINY), loans_task.test.records[:3]
    feasible = model.prepared(Constraints(), records).feasible
    target = target_codes(model, model.classes[0], 3)
    paths = flow_paths(model, target, feasible, model.encoder.encode(feasible.origin), count=1, seed=0)
    assert paths.shape[1] == SearchMethodConfig().path_points + 1
    np.testing.assert_array_equal(paths[:, 0], feasible.origin)
