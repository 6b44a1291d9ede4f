"""Anchors: sure of their class, made up, nearest to those who seek them; the ways there stay within the constraints."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.config import AnchorConfig, SearchConfig
from models.search.candidates import decode_points, generate
from models.search.search import explain
from models.space.anchors import Anchors, approach, choose_anchors
from models.space.constraints import Constraints, compile_constraints, encoded_bounds, violations
from models.storage.artifact import load_model, save_model
from tests.models.tiny import TINY, Task, other_class, random_model

CONFIG = AnchorConfig()
WAYS = CONFIG.nearest * len(CONFIG.fractions)


def test_the_nearest_sure_points_are_kept_and_no_training_record_is_among_them() -> None:
    training, labels = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0]]), np.array([0, 0, 1])
    pool = np.array([[2.0, 0.0], [3.0, 0.0], [1.0, 0.0], [9.0, 9.0], [8.0, 9.0]])
    unsure = [1.02 - CONFIG.sure, CONFIG.sure - 0.02]
    shares = np.array([[0.0, 1.0], [0.0, 1.0], unsure, [0.0, 1.0], [1.0, 0.0]], dtype=np.float32)
    free = np.array([True, True])
    found = choose_anchors(pool, shares, training, labels, free, np.random.default_rng(0), CONFIG)
    assert found.points.tolist() == [[8.0, 9.0], [2.0, 0.0]]
    assert found.labels.tolist() == [0, 1]


def test_only_the_columns_that_may_move_count() -> None:
    training, labels = np.array([[0.0, 0.0], [5.0, 5.0]]), np.array([0, 1])
    pool, shares = np.array([[1.0, 9.0], [2.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 1.0]], dtype=np.float32)
    only_first = np.array([True, False])
    found = choose_anchors(pool, shares, training, labels, only_first, np.random.default_rng(0), CONFIG)
    assert found.points.tolist() == [[1.0, 9.0]]


@pytest.fixture
def anchored(loans_task: Task) -> Anchors:
    """Every twentieth test record as an anchor of its own class."""
    points = loans_task.encoder.encode(loans_task.test.records[::20])
    return Anchors(points, loans_task.test.labels[::20])


def test_the_ways_there_keep_every_constraint(loans_task: Task, anchored: Anchors) -> None:
    records, schema = loans_task.test.records[:40], loans_task.encoder.schema
    target = other_class(loans_task.test.labels[:40], 2)
    feasible = compile_constraints(schema, Constraints(immutable=frozenset(["income"])), records)
    points = approach(anchored, loans_task.encoder, target, feasible, CONFIG)
    assert points.shape == (40, WAYS, loans_task.encoder.width)
    box = encoded_bounds(loans_task.encoder, feasible)
    assert (points >= box.lower[:, None]).all() and (points <= box.upper[:, None]).all()
    ways = decode_points(loans_task.encoder, points.astype(np.float32), feasible)
    for position in range(ways.shape[1]):
        assert not violations(schema, records, ways[:, position], feasible).any()
    assert (ways != records[:, None]).any(axis=2).mean() > 0.9


def test_a_record_alone_finds_what_it_finds_in_a_batch(loans_task: Task, anchored: Anchors) -> None:
    records = loans_task.test.records[:60]
    target = other_class(loans_task.test.labels[:60], 2)
    feasible = compile_constraints(loans_task.encoder.schema, Constraints(), records)
    together = approach(anchored, loans_task.encoder, target, feasible, CONFIG)
    for row in range(60):
        one = np.array([row])
        alone = approach(anchored, loans_task.encoder, target[one], feasible.rows(one), CONFIG)
        np.testing.assert_array_equal(alone[0], together[row])


def test_they_are_candidates_and_travel_with_the_model(loans_task: Task, anchored: Anchors, tmp_path: Path) -> None:
    bare = random_model(loans_task.encoder, TINY)
    model = replace(bare, anchors=anchored)
    records, target = loans_task.test.records[:8], other_class(loans_task.test.labels[:8], 2)
    feasible = compile_constraints(loans_task.encoder.schema, Constraints(), records)
    assert generate(bare, target, feasible, 5, seed=0).cost.shape == (8, 5)
    assert generate(model, target, feasible, 5, seed=0).cost.shape == (8, 5 + WAYS)
    save_model(model, tmp_path / "model")
    again, quick = load_model(tmp_path / "model"), SearchConfig(candidates=5)
    assert explain(again, records, target, config=quick) == explain(model, records, target, config=quick)


def test_a_class_without_anchors_stays_at_home(loans_task: Task, anchored: Anchors) -> None:
    only = Anchors(anchored.points[anchored.labels == 0], anchored.labels[anchored.labels == 0])
    records = loans_task.test.records[:4]
    feasible = compile_constraints(loans_task.encoder.schema, Constraints(), records)
    points = approach(only, loans_task.encoder, np.ones(4, dtype=np.int64), feasible, CONFIG)
    ways = decode_points(loans_task.encoder, points.astype(np.float32), feasible)
    home = np.broadcast_to(records[:, None], ways.shape)
    np.testing.assert_array_equal(ways, home)
