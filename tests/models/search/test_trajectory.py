"""The path of an answer starts at the record, keeps the constraints, and ends near the answer."""

import numpy as np

from models.config import SearchMethodConfig
from models.data.records import check_record
from models.model import RecourseModel
from models.search.search import target_codes
from models.search.trajectory import trace
from models.space.constraints import Constraints, prepare, violations
from tests.models.tiny import TINY, Task, random_model


def test_path(loans_task: Task) -> None:
    model: RecourseModel = random_model(loans_task.encoder, TINY)
    records = loans_task.test.records[:5]
    feasible = prepare(
        model.encoder.schema, model.generated_features, Constraints(immutable=frozenset({"income"})), records
    ).feasible
    target = target_codes(model, model.classes[0], 5)
    far = model.encoder.encode(loans_task.test.records[5:10])
    together = trace(model, target, feasible, far, count=4, seed=1)
    for row, path in enumerate(together):
        assert [point.time for point in path] == np.linspace(0, 1, SearchMethodConfig().path_points + 1).tolist()
        way = np.concatenate([check_record(model.encoder.schema, point.record) for point in path])
        own = feasible.rows(np.full(len(way), row))
        assert not violations(model.encoder.schema, own.origin, way, own).any()
        assert path == trace(model, target[:1], feasible.row(row), far[row : row + 1], 4, 1)[0]
    assert any(path[0].record != path[-1].record for path in together)


def test_the_first_start_is_the_record_itself(loans_task: Task) -> None:
    model = random_model(loans_task.encoder, TINY)
    feasible = prepare(
        model.encoder.schema, model.generated_features, Constraints(), loans_task.test.records[:3]
    ).feasible
    target = target_codes(model, model.classes[0], 3)
    paths = trace(model, target, feasible, model.encoder.encode(feasible.origin), count=1, seed=0)
    assert [path[0].cost for path in paths] == [0.0, 0.0, 0.0]
