"""RNCE and STCE of rocelib as people use it: the nearest training record that stays accepted when weights change.

Both look into a ReLU network of one output. Where one model of two classes is asked and is such a network, it is that
one; else a network learns what all asked models say of the training records. Only records that all asked models accept
are offered, so that the answers hold for them whatever the network says. Inputs lie in [0, 1].
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from benchmarks.rivals.packaged import PYTHON, Packaged
from benchmarks.rivals.relu import ReluConfig, relu_layers, train_relu
from benchmarks.rivals.rival import Problem
from models.arrays import Encoded, Floats, Records, Targets
from models.ensemble.local import LocalEnsemble
from models.ensemble.mlp import Mlp
from models.ensemble.protocol import Ensemble
from models.ensemble.votes import votes

Robust: TypeAlias = Literal["rnce", "stce"]
OFFERED = 2000
"""Accepted records that the package may choose from."""

Layers: TypeAlias = list[tuple[Floats, Floats]]
"""Weights (out, in) and biases (out,) of a network, first to last"""


@dataclass(frozen=True, eq=False)
class Box:
    """The box of the training points (D,), and points as shares of their way through it."""

    lower: Floats
    span: Floats

    @classmethod
    def of(cls, points: Encoded) -> "Box":
        span = np.ptp(points, axis=0)
        return cls(points.min(axis=0), np.where(span > 0, span, 1.0))

    def shares(self, points: Encoded) -> Encoded:
        """points (n, D) -> (n, D); those of the training lie in [0, 1]"""
        return (points - self.lower) / self.span


class RobustNearest(Packaged):
    """A method of rocelib behind the interface of the rivals; its answers are training records."""

    def __init__(self, method: Robust, relu: ReluConfig | None = None) -> None:
        super().__init__(method, PYTHON)
        self.relu = relu or ReluConfig(hidden=(16,))

    @property
    def note(self) -> str:
        size = "-".join(str(width) for width in self.relu.hidden)
        network = f"it looks into the asked perceptron, else into one of {size} units that learned what all asked say"
        return f"from PyPI; {network}; {OFFERED} training records at most"

    def fit(self, problem: Problem) -> None:
        super().fit(problem)
        assert self._counted is not None, "fit of the package counts"
        points = problem.encoder.encode(problem.training.records)
        self._said, self._box = self._counted.predict_proba(problem.training.records), Box.of(points)
        self._points = self._box.shares(points)

    def explain(self, records: Records, target: Targets) -> Records:
        """A network and a child for each class that is wanted"""
        answers = records.copy()
        for wanted in np.unique(target):
            rows = target == wanted
            answers[rows] = self._towards(records[rows], int(wanted))
        return answers

    def _towards(self, records: Records, wanted: int) -> Records:
        """The answers to records (n, F), all to one class; a record as it was where the package has none"""
        problem, answers = self._problem, records.copy()
        accepted = votes(self._said, np.full(len(self._points), wanted)).all(axis=0)
        offered = np.random.default_rng(problem.seed).permutation(np.flatnonzero(accepted))[:OFFERED]
        if not len(offered):
            return answers
        layers = asked_network(problem.ensemble, self._box, wanted)
        layers = layers or self._learned_network(np.asarray(accepted, dtype=np.int64))
        inputs = self._box.shares(problem.encoder.encode(records))
        task = {
            "names": [f"v{column}" for column in range(inputs.shape[1])],
            "categorical": [],
            "training": self._points[offered].tolist(),
            "labels": [],
            "records": inputs.tolist(),
            "targets": [],
            "seed": problem.seed,
            "layers": [(weight.tolist(), bias.tolist()) for weight, bias in layers],
        }
        for row, found in enumerate(self.ask_package(task, len(records))):
            if found is not None:
                answers[row] = problem.training.records[offered[int(found[0])]]
        return answers

    def _learned_network(self, accepted: Targets) -> Layers:
        """By how much "all accept" leads: the package knows networks of one output"""
        *hidden, (weights, biases) = relu_layers(train_relu(self._points, accepted, 2, self.relu, self._problem.seed))
        return [*hidden, (weights[1:] - weights[:1], biases[1:] - biases[:1])]


def asked_network(asked: Ensemble, box: Box, wanted: int) -> Layers | None:
    """The one asked model, where it is a network of one output: the logit of `wanted`, of inputs in the box"""
    if not isinstance(asked, LocalEnsemble) or len(asked.members) > 1 or not isinstance(asked.members[0], Mlp):
        return None
    net = asked.members[0].model
    layers = [(weight.T, bias) for weight, bias in zip(net.coefs_, net.intercepts_, strict=True)]
    (first, bias), (last, end) = layers[0], layers[-1]
    if len(last) > 1:
        return None
    layers[0] = first * box.span, bias + first @ box.lower
    return [*layers[:-1], (last, end) if wanted == 1 else (-last, -end)]
