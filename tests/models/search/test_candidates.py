"""Candidates: paths from perturbed starts, decoded and measured."""

from dataclasses import replace

import numpy as np
import pytest

from models.arrays import Targets
from models.config import Config, FlowConfig, Solver, SurrogateConfig
from models.model import RecourseModel
from models.search.candidates import Candidates, generate, measure
from models.search.scoring import score_points
from models.space.constraints import Constraints, Range, compile_constraints, violations
from models.space.encoding import cost
from models.space.feasible import FeasibleSet
from tests.models.tiny import TINY, Task, feasible_by_schema, other_class, random_model

COUNT = 6
WIDE = Config(surrogate=SurrogateConfig(width=128), flow=FlowConfig(width=128))


@pytest.fixture(scope="module")
def feasible(loans_task: Task) -> FeasibleSet:
    """The loans' test records, some with missing values."""
    assert np.isnan(loans_task.test.records).any()
    return feasible_by_schema(loans_task.encoder, loans_task.test.records)


@pytest.fixture(scope="module")
def target(loans_task: Task) -> Targets:
    return other_class(loans_task.test.labels, 2)


def test_shapes_and_measures(tiny_model: RecourseModel, feasible: FeasibleSet, target: Targets) -> None:
    candidates = generate(tiny_model, target, feasible, COUNT, seed=1)
    n, encoder = len(feasible), tiny_model.encoder
    count = COUNT + 20
    assert candidates.records.shape == (n, count, len(encoder.schema.features))
    assert candidates.points.shape == (n, count, encoder.width)
    assert candidates.cost.shape == candidates.agreement.shape == candidates.density.shape == (n, count)
    origin = encoder.encode(feasible.origin)
    for position in range(count):
        again = encoder.encode(candidates.records[:, position])
        scores = score_points(tiny_model, again, target)
        np.testing.assert_array_equal(candidates.points[:, position], again)
        np.testing.assert_array_equal(candidates.cost[:, position], cost(again, origin))
        np.testing.assert_array_equal(candidates.agreement[:, position], scores.agreement)
        np.testing.assert_array_equal(candidates.density[:, position], scores.density)
    assert (candidates.cost > 0).any()


@pytest.mark.parametrize("solver", ["euler", "midpoint", "rk4", "dopri5"])
def test_constraints_hold_exactly(loans_task: Task, solver: Solver) -> None:
    """A random field pushes everywhere; one-way, protected and ranged features hold all the same."""
    config = replace(TINY, flow=replace(TINY.flow, solver=solver))
    model = random_model(loans_task.encoder, config)
    schema, origin = model.encoder.schema, loans_task.test.records
    ranges: dict[str, Range] = {"income": (6_000.0, None), "employment": ("salaried", "contract")}
    constraints = Constraints(immutable=frozenset({"savings", "housing"}), ranges=ranges)
    feasible = compile_constraints(schema, constraints, origin)
    candidates = generate(model, np.zeros(len(origin), dtype=np.int64), feasible, COUNT, seed=0)
    moved = np.zeros(len(schema.features), dtype=np.bool_)
    for position in range(COUNT):
        records = candidates.records[:, position]
        assert not violations(schema, origin, records, feasible).any()
        moved |= ((records != origin) & ~np.isnan(origin)).any(axis=0)
    frozen = {"savings", "housing", "sex", "dependents", "purpose"}
    assert frozen.isdisjoint(np.array(schema.names)[moved])
    assert moved.sum() >= 6


def test_the_seed_alone_decides(tiny_model: RecourseModel, feasible: FeasibleSet, target: Targets) -> None:
    first, again, other = (generate(tiny_model, target, feasible, COUNT, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.records, again.records)
    assert not np.array_equal(first.records, other.records, equal_nan=True)
    np.testing.assert_array_equal(first.records[:, 0], other.records[:, 0])


@pytest.mark.parametrize("config", [TINY, WIDE], ids=["narrow", "wide"])
def test_a_record_alone_has_the_bits_that_it_has_among_500(loans_task: Task, config: Config) -> None:
    model = random_model(loans_task.encoder, config)
    rows = np.arange(500) % len(loans_task.test)
    feasible = feasible_by_schema(model.encoder, loans_task.test.records[rows])
    target = other_class(loans_task.test.labels[rows], 2)
    together = generate(model, target, feasible, 30, seed=4)
    for row in (0, 77, 272, 273, 499):
        alone = generate(model, target[row : row + 1], feasible.row(row), 30, seed=4)
        for one, many in zip(alone.parts, together.parts, strict=True):
            np.testing.assert_array_equal(one[0], many[row])


def test_taking_replacing_and_joining() -> None:
    cells = np.arange(6.0).reshape(2, 3)
    all_of = Candidates(cells[..., None], cells[..., None], cells, cells, cells, cells >= 0)
    chosen = all_of.take(np.array([[2, 0], [1, 1]]))
    assert chosen.cost.tolist() == [[2.0, 0.0], [4.0, 4.0]] and chosen.records.shape == (2, 2, 1)
    assert all_of.take_rows(np.array([1])).cost.tolist() == [[3.0, 4.0, 5.0]]
    swapped = all_of.replace_rows(np.array([0]), all_of.take_rows(np.array([1])))
    assert swapped.cost.tolist() == [[3.0, 4.0, 5.0], [3.0, 4.0, 5.0]]
    assert all_of.cost.tolist() == cells.tolist()
    assert all_of.beside(chosen).cost.shape == (2, 5)
    flat = all_of.flatten()
    assert flat.cost.shape == (6, 1) and flat.unflatten(2).cost.tolist() == cells.tolist()


def test_the_record_itself_costs_nothing(tiny_model: RecourseModel, feasible: FeasibleSet, target: Targets) -> None:
    same = measure(tiny_model, feasible.origin[:, None], target, feasible)
    assert not same.cost.any()
