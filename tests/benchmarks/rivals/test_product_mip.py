"""The program finds the nearest point that all networks accept, as a fine grid of the plane does."""

import numpy as np
import pytest

from benchmarks.rivals.product_mip import ProductConfig, ProductMip
from benchmarks.rivals.program import Program, add_inputs, add_network, solve_nearest
from benchmarks.rivals.relu import ReluConfig, predict_classes, relu_layers, train_relu
from benchmarks.rivals.rival import NO_QUERIES
from models.encoding import Encoder
from models.feature import Feature, Kind
from models.schema import Schema
from tests.benchmarks.rivals.planes import Thresholds, blobs, problem

SMALL = ProductConfig(relu=ReluConfig(hidden=(6, 6), epochs=60), seconds=20.0)


def test_the_program_computes_what_the_network_computes() -> None:
    training = blobs()
    encoder = Encoder.fit(problem(Thresholds(0.0)).encoder.schema, training.records)
    net = train_relu(encoder.encode(training.records), training.labels, 2, ReluConfig(hidden=(5, 5)), 0)
    program = Program()
    inputs = add_inputs(program, encoder)
    logits = add_network(program, inputs.columns, relu_layers(net))
    # Where the first logit has to lead by what it leads by at this point, this point is the nearest.
    point = encoder.encode(np.array([[1.3, -0.7]]))[0]
    hidden = point
    for weight, bias in relu_layers(net)[:-1]:
        hidden = np.maximum(weight @ hidden + bias, 0.0)
    lead = float(np.diff(relu_layers(net)[-1][0] @ hidden + relu_layers(net)[-1][1])[0])
    row = logits.matrix[1] - logits.matrix[0]
    exact = lead - float(logits.constant[1] - logits.constant[0])
    program.add_row(row, exact - 1e-6, exact + 1e-6)
    found = solve_nearest(program, program.matrix(), inputs, encoder, point, 20.0)
    assert found is not None and found == pytest.approx(point, abs=1e-3)


def test_the_answer_is_the_nearest_by_absolute_differences() -> None:
    rival = ProductMip(SMALL)
    task = problem(Thresholds(0.0))
    rival.fit(task)
    record, target = np.array([[-2.0, 0.3]]), np.array([1])
    answer = rival.explain(record, target)
    assert rival.surrogate_classes(answer).tolist() == [1] and rival.queries == NO_QUERIES
    grid = np.stack(np.meshgrid(np.arange(-3, 3, 0.02), np.arange(-3, 3, 0.02)), axis=-1).reshape(-1, 2)
    points = task.encoder.encode(grid)
    accepted = np.all([predict_classes(net, points) == 1 for net in rival._nets], axis=0)
    home = task.encoder.encode(record)
    nearest = np.abs(points[accepted] - home).sum(axis=1).min()
    found = float(np.abs(task.encoder.encode(answer) - home).sum())
    assert found <= nearest + 0.01 and found >= nearest - 0.05


def test_categories_are_chosen_and_whole_numbers_stay_whole() -> None:
    features = (
        Feature("colour", Kind.CATEGORICAL, categories=("red", "green", "blue")),
        Feature("count", Kind.INTEGER, lower=0.0, upper=9.0, step=1.0),
    )
    random = np.random.default_rng(0)
    records = np.stack([random.integers(3, size=300), random.integers(10, size=300)], axis=1).astype(np.float64)
    labels = (records[:, 0] == 2).astype(np.int64)
    encoder = Encoder.fit(Schema(features, "label", ("no", "yes")), records)
    net = train_relu(encoder.encode(records), labels, 2, ReluConfig(hidden=(6, 6), epochs=300), 0)
    program = Program()
    inputs = add_inputs(program, encoder)
    logits = add_network(program, inputs.columns, relu_layers(net))
    lead = logits.matrix[1] - logits.matrix[0]
    program.add_row(lead, 1e-3 - float(logits.constant[1] - logits.constant[0]), np.inf)
    home = np.array([[0.0, 4.0]])
    found = solve_nearest(program, program.matrix(), inputs, encoder, encoder.encode(home)[0], 20.0)
    assert found is not None
    assert encoder.encode(encoder.decode(found[None]))[0] == pytest.approx(found, abs=1e-6)
    assert encoder.decode(found[None]).tolist() == [[2.0, 4.0]]


def test_what_cannot_be_met_leaves_the_record() -> None:
    rival = ProductMip(ProductConfig(relu=SMALL.relu, margin=1e6))
    rival.fit(problem(Thresholds(0.0)))
    record = np.array([[-2.0, 0.3]])
    assert (rival.explain(record, np.array([1])) == record).all()
