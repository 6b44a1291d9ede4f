"""Polishing: what it may and may not do to a candidate."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from models.arrays import Targets
from models.config import Config, FlowConfig, SurrogateConfig
from models.data.schema import Feature, FeatureKind
from models.model import Calibration, RecourseModel
from models.search.candidates import Candidates, generate, measure
from models.search.local_search import count_changes, objective, polish
from models.space.constraints import Constraints, compile_constraints, violations
from models.space.encoding import Encoder
from models.space.feasible import FeasibleSet
from tests.fakes.plane import linear_model, plane
from tests.models.tiny import TINY, Task, feasible_by_schema, other_class, random_model

WIDE = Config(surrogate=SurrogateConfig(width=128), flow=FlowConfig(width=128))

CHANGE_PENALTY = 0.004


def start_of(model: RecourseModel, target: Targets, feasible: FeasibleSet) -> Candidates:
    """One candidate a record: the most robust of a few."""
    candidates = generate(model, target, feasible, 6, seed=0)
    return candidates.take(candidates.agreement.argmax(axis=1)[:, None])


def test_known_worth() -> None:
    records = np.array([[[1.0, 2.0], [1.0, 5.0]]])
    cost, agreement = np.array([[0.0, 2.0]]), np.array([[0.3, 0.8]])
    candidates = Candidates(records, records, cost, agreement, cost, np.ones((1, 2), dtype=np.bool_))
    feasible = feasible_by_schema(plane("x", "y"), np.array([[1.0, 2.0]]))
    value = objective(candidates, feasible, np.array([0.1]), CHANGE_PENALTY)
    np.testing.assert_allclose(value, [[0.3, 0.8 - 0.2 - CHANGE_PENALTY]])


def test_missing_equals_missing() -> None:
    records = np.array([[1.0, np.nan, np.nan, 2.0]])
    origin = np.array([[1.0, np.nan, 3.0, np.nan]])
    assert count_changes(records, origin).tolist() == [2]


def test_it_gains_within_the_constraints(loans_task: Task, tiny_model: RecourseModel) -> None:
    origin, model = loans_task.test.records, tiny_model
    constraints = Constraints(immutable=frozenset({"housing"}), ranges={"debt_ratio": (0.0, 0.4)})
    within = loans_task.test.records[:, model.encoder.schema.index("debt_ratio")] < 0.9
    feasible = compile_constraints(model.encoder.schema, constraints, origin[within])
    target, cost_weight = other_class(loans_task.test.labels[within], 2), np.full(int(within.sum()), 0.2)
    start = start_of(model, target, feasible)
    polished = polish(model, start, target, feasible, cost_weight, 5)
    before, after = (
        objective(candidates, feasible, cost_weight, CHANGE_PENALTY)[:, 0] for candidates in (start, polished)
    )
    assert (after >= before).all() and (after > before + 0.01).any()
    assert not violations(model.encoder.schema, feasible.origin, polished.records[:, 0], feasible).any()
    measured = measure(model, polished.records, target, feasible)
    for mine, again in zip(polished.parts, measured.parts, strict=True):
        np.testing.assert_array_equal(mine, again)


def test_what_has_reached_the_floor_stays_above_it(loans_task: Task, tiny_model: RecourseModel) -> None:
    """At a price at which all changes would go back, the floor holds some of them."""
    feasible = feasible_by_schema(tiny_model.encoder, loans_task.test.records)
    target, cost_weight = other_class(loans_task.test.labels, 2), np.full(len(loans_task.test), 5.0)
    start = start_of(tiny_model, target, feasible)
    min_expected_agreement = float(np.quantile(start.agreement, 0.75))
    free = polish(tiny_model, start, target, feasible, cost_weight, 6)
    held = polish(tiny_model, start, target, feasible, cost_weight, 6, min_expected_agreement)
    reached = start.agreement >= min_expected_agreement
    assert (free.agreement[reached] < min_expected_agreement).any()
    assert (held.agreement[reached] >= min_expected_agreement).all()
    assert held.cost.sum() < start.cost.sum()


def test_changes_that_bring_nothing_are_put_back(loans_task: Task) -> None:
    """Where the surrogate does not care, every change goes back to the applicant's own value."""
    model = random_model(loans_task.encoder, TINY)
    with torch.no_grad():
        for parameter in model.pair.parameters():
            parameter.zero_()
    model = replace(model, calibration=Calibration.identity(2))
    feasible = feasible_by_schema(model.encoder, loans_task.test.records)
    target, features = other_class(loans_task.test.labels, 2), len(model.encoder.schema.features)
    start = start_of(model, target, feasible)
    assert count_changes(start.records[:, 0], feasible.origin).mean() > 3
    polished = polish(model, start, target, feasible, np.full(len(target), 0.1), features)
    assert not count_changes(polished.records[:, 0], feasible.origin).any()
    assert not polished.cost.any()


@pytest.mark.parametrize("config", [TINY, WIDE], ids=["narrow", "wide"])
def test_a_record_alone_has_the_bits_that_it_has_among_500(loans_task: Task, config: Config) -> None:
    model = random_model(loans_task.encoder, config)
    rows = np.arange(500) % len(loans_task.test)
    feasible = feasible_by_schema(model.encoder, loans_task.test.records[rows])
    target, cost_weight = other_class(loans_task.test.labels[rows], 2), np.geomspace(0.01, 1.0, 500)
    start = start_of(model, target, feasible)
    together = polish(model, start, target, feasible, cost_weight, 3)
    for row in (0, 77, 300, 499):
        one = np.array([row])
        alone = polish(model, start.take_rows(one), target[one], feasible.row(row), cost_weight[one], 3)
        for mine, theirs in zip(alone.parts, together.parts, strict=True):
            np.testing.assert_array_equal(mine[0], theirs[row])


def test_a_change_that_gains_less_than_its_penalty_is_put_back_however_many_moves_look_better() -> None:
    """Its own category loses 0.0021 of agreement and cost, and saves the penalty of a change; other moves lose less."""
    idle = tuple(f"idle-{position}" for position in range(12))
    numbers = plane("pinned", *idle).schema
    category = Feature("category", FeatureKind.CATEGORICAL, categories=("own", "other"))
    width = len(numbers.features)
    schema = replace(numbers, features=(*numbers.features, category))
    encoder = Encoder(schema, np.zeros(width + 1), np.zeros(width + 1), np.ones(width + 1))
    model = linear_model(encoder, [*[0.0] * width, 0.0066])
    origin, record = np.zeros((1, width + 1)), np.zeros((1, 1, width + 1))
    # The pinned number makes the steps of all others cost little.
    feasible = compile_constraints(schema, Constraints(ranges={"pinned": (3.0, 3.0)}), origin)
    record[0, 0, [0, width]] = 3.0, 1.0
    target, weight = np.ones(1, dtype=np.int64), np.array([0.002])
    start = measure(model, record, target, feasible)
    polished = polish(model, start, target, feasible, weight, 5)
    assert polished.records[0, 0].tolist() == [3.0, *[0.0] * width]
    after, before = (objective(each, feasible, weight, CHANGE_PENALTY)[0, 0] for each in (polished, start))
    gain = after - before
    assert gain == pytest.approx(0.0019, abs=2e-4)


def test_polishing_ends_at_the_optimum_that_calculus_knows() -> None:
    """One number: the agreement a rises by a (1 - a) per step, until that is the cost weight."""
    model = linear_model(plane("x"), [1.0], bias=-3.0)
    origin, target, weight = np.zeros((1, 1)), np.ones(1, dtype=np.int64), np.array([0.1])
    feasible = compile_constraints(model.encoder.schema, Constraints(), origin)
    start = measure(model, np.array([[[8.0]]]), target, feasible)
    polished = polish(model, start, target, feasible, weight, 30)
    best = 3.0 + np.log((1 + np.sqrt(1 - 4 * 0.1)) / (1 - np.sqrt(1 - 4 * 0.1)))
    assert polished.records[0, 0, 0] == pytest.approx(best, abs=0.15)
