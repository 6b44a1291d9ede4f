"""RNCE and STCE of rocelib answer with accepted training records; the network they look into is the asked one."""

import numpy as np
import pytest

from benchmarks.rivals.packaged import PYTHON
from benchmarks.rivals.relu import ReluConfig
from benchmarks.rivals.rival import squared_distances
from benchmarks.rivals.robust_nearest import Box, Robust, RobustNearest, asked_network
from models.arrays import Floats
from models.ensemble.local import train_local_ensemble
from models.space.encoding import Encoder
from tests.benchmarks.rivals.planes import PLANE, Thresholds, blobs, problem

installed = pytest.mark.skipif(not PYTHON.exists(), reason="`make rivals` was not run")
RECORDS, TARGET = np.array([[-2.0, 0.3], [2.0, -0.2], [-1.0, 0.0]]), np.array([1, 0, 1])
SMALL = ReluConfig(hidden=(4,), steps=600)


@installed
@pytest.mark.parametrize("method", ["rnce", "stce"])
def test_the_answers_are_records_that_all_accept_and_not_those_at_the_edge(method: Robust) -> None:
    training, lender = blobs(), Thresholds(-0.1, 0.0, 0.1)
    rival = RobustNearest(method, SMALL)
    rival.fit(problem(lender, training))
    answers = rival.explain(RECORDS, TARGET)
    assert (answers[[0, 2], 0] > 0.1).all() and answers[1, 0] < -0.1
    assert (answers[:, None] == training.records).all(axis=2).any(axis=1).all()
    accepted = training.records[training.records[:, 0] > 0.1]
    nearest = squared_distances(RECORDS[::2], accepted).min(axis=1)
    assert (((answers - RECORDS)[::2] ** 2).sum(axis=1) >= nearest).all()
    assert lender.count == rival.queries.distinct == len(training)


@installed
def test_where_nobody_accepts_the_records_stay_as_they_were() -> None:
    rival = RobustNearest("rnce", SMALL)
    rival.fit(problem(Thresholds(0.0, 10.0)))
    assert (rival.explain(RECORDS[:1], TARGET[:1]) == RECORDS[:1]).all()


@pytest.mark.parametrize("wanted", [0, 1])
def test_the_network_of_one_asked_perceptron_is_that_perceptron(wanted: int) -> None:
    training = blobs()
    encoder = Encoder.fit(PLANE, training.records)
    asked = train_local_ensemble(encoder, training.records, training.labels, members=("mlp",))
    box = Box.of(encoder.encode(training.records))
    layers = asked_network(asked, box, wanted)
    assert layers is not None
    odds = 1 / (1 + np.exp(-output(layers, box.shares(encoder.encode(RECORDS)))))
    assert odds == pytest.approx(asked.predict_proba(RECORDS)[0, :, wanted])


def test_other_models_and_several_of_them_have_no_such_network() -> None:
    training = blobs()
    encoder = Encoder.fit(PLANE, training.records)
    box = Box.of(encoder.encode(training.records))
    for members in (("knn",), ("knn", "mlp")):
        ensemble = train_local_ensemble(encoder, training.records, training.labels, members=members)
        assert asked_network(ensemble, box, 1) is None


def output(layers: list[tuple[Floats, Floats]], inputs: Floats) -> Floats:
    for weights, biases in layers[:-1]:
        inputs = np.maximum(inputs @ weights.T + biases, 0.0)
    last: Floats = (inputs @ layers[-1][0].T + layers[-1][1])[:, 0]
    return last
