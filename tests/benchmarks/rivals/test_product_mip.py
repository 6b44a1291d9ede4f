"""The program finds the nearest point that all networks accept, as a fine grid of the plane does."""

import numpy as np
import pytest

from benchmarks.rivals.product_mip import ProductConfig, ProductMip
from benchmarks.rivals.program import Program, add_inputs, add_network, solve
from benchmarks.rivals.relu import ReluConfig, predict_classes, relu_layers, train_relu
from benchmarks.rivals.rival import NO_QUERIES
from models.data.schema import Feature, FeatureKind, Schema
from models.space.encoding import Encoder
from tests.benchmarks.rivals.planes import Thresholds, blobs, problem

SMALL = ProductConfig(relu=ReluConfig(hidden=(6, 6), steps=300), seconds=20.0)


def test_the_program_computes_what_the_network_computes() -> None:
    training = blobs()
    encoder = Encoder.fit(problem(Thresholds(0.0)).encoder.schema, training.records)
    net = train_relu(encoder.encode(training.records), training.labels, 2, ReluConfig(hidden=(5, 5)), 0)
    program, point = Program(), encoder.encode(np.array([[1.3, -0.7]]))[0]
    inputs = add_inputs(program, encoder, point, np.inf)
    logits = add_network(program, inputs.columns, relu_layers(net))
    # Where the first logit has to lead by what it leads by at this point, this point is the nearest.
    hidden = point
    for weight, bias in relu_layers(net)[:-1]:
        hidden = np.maximum(weight @ hidden + bias, 0.0)
    lead = float(np.diff(relu_layers(net)[-1][0] @ hidden + relu_layers(net)[-1][1])[0])
    row = logits.matrix[1] - logits.matrix[0]
    exact = lead - float(logits.constant[1] - logits.constant[0])
    program.add_row(row, exact - 1e-6, exact + 1e-6)
    found = solve(program, inputs, 20.0)
    assert found.proven and found.point == pytest.approx(point, abs=1e-3)


@pytest.mark.parametrize(("radius", "reached"), [(0.3, False), (2.0, True)])
def test_nothing_outside_of_the_ball_is_found_and_that_it_is_empty_is_proven(radius: float, reached: bool) -> None:
    encoder = problem(Thresholds(0.0)).encoder
    program, point = Program(), encoder.encode(np.array([[-1.0, 0.5]]))[0]
    inputs = add_inputs(program, encoder, point, radius)
    # A network of one layer that wants x1 to lead by what it has at x1 = 0.
    logits = add_network(program, inputs.columns, [(np.array([[1.0, 0.0]]), np.zeros(1))])
    program.add_row(logits.matrix[0], -float(logits.constant[0] + encoder.mean[0] / encoder.scale[0]), np.inf)
    found = solve(program, inputs, 20.0)
    assert found.proven and (found.point is not None) == reached
    if found.point is not None:
        assert np.abs(found.point - point).sum() == pytest.approx(1.0 / encoder.scale[0], rel=0.02)


def test_the_answer_is_the_nearest_by_absolute_differences() -> None:
    rival = ProductMip(SMALL)
    task = problem(Thresholds(0.0))
    rival.fit(task)
    record, target = np.array([[-2.0, 0.3]]), np.array([1])
    answer = rival.explain(record, target)
    assert rival.surrogate_classes(answer).tolist() == [1] and rival.queries == NO_QUERIES
    assert rival.proven == 1.0
    grid = np.stack(np.meshgrid(np.arange(-3, 3, 0.02), np.arange(-3, 3, 0.02)), axis=-1).reshape(-1, 2)
    points = task.encoder.encode(grid)
    accepted = np.all([predict_classes(net, points) == 1 for net in rival._nets], axis=0)
    home = task.encoder.encode(record)
    nearest = np.abs(points[accepted] - home).sum(axis=1).min()
    found = float(np.abs(task.encoder.encode(answer) - home).sum())
    assert found <= nearest + 0.01 and found >= nearest - 0.05


def test_categories_are_chosen_and_whole_numbers_stay_whole() -> None:
    features = (
        Feature("colour", FeatureKind.CATEGORICAL, categories=("red", "green", "blue")),
        Feature("count", FeatureKind.INTEGER, lower=0.0, upper=9.0, step=1.0),
    )
    random = np.random.default_rng(0)
    records = np.stack([random.integers(3, size=300), random.integers(10, size=300)], axis=1).astype(np.float64)
    labels = (records[:, 0] == 2).astype(np.int64)
    encoder = Encoder.fit(Schema(features, "label", ("no", "yes")), records)
    net = train_relu(encoder.encode(records), labels, 2, ReluConfig(hidden=(6, 6), steps=700), 0)
    home = np.array([[0.0, 4.0]])
    program = Program()
    inputs = add_inputs(program, encoder, encoder.encode(home)[0], np.inf)
    logits = add_network(program, inputs.columns, relu_layers(net))
    lead = logits.matrix[1] - logits.matrix[0]
    program.add_row(lead, 1e-3 - float(logits.constant[1] - logits.constant[0]), np.inf)
    found = solve(program, inputs, 20.0).point
    assert found is not None
    assert encoder.encode(encoder.decode(found[None]))[0] == pytest.approx(found, abs=1e-6)
    assert encoder.decode(found[None]).tolist() == [[2.0, 4.0]]


def test_where_the_time_runs_out_the_known_answer_is_given() -> None:
    rival = ProductMip(ProductConfig(relu=SMALL.relu, seconds=0.0))
    rival.fit(problem(Thresholds(0.0)))
    answer = rival.explain(np.array([[-2.0, 0.3]]), np.array([1]))
    assert rival.surrogate_classes(answer).tolist() == [1] and answer[0, 0] < 0.5
    assert rival.proven == 0.0


def test_what_cannot_be_met_leaves_the_record() -> None:
    rival = ProductMip(ProductConfig(relu=SMALL.relu, margin=1e6))
    rival.fit(problem(Thresholds(0.0)))
    record = np.array([[-2.0, 0.3]])
    assert (rival.explain(record, np.array([1])) == record).all()


def test_a_missing_category_may_stay_missing() -> None:
    feature = Feature("colour", FeatureKind.CATEGORICAL, categories=("red", "green"), nullable=True)
    encoder = Encoder.fit(Schema((feature,), "label", ("no", "yes")), np.array([[0.0], [1.0], [np.nan]]))
    record = np.array([[np.nan]])
    program, point = Program(), encoder.encode(record)[0]
    inputs = add_inputs(program, encoder, point, 0.1)
    found = solve(program, inputs, 20.0).point
    assert found is not None and np.isnan(encoder.decode(found[None], origin=record)).all()
