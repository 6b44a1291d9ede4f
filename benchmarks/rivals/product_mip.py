"""Product_mip (Leofante et al., 2023): the nearest record that every network of a product accepts, by a MILP.

The black boxes are out of its sight: the networks are trained on the data and stand for them, so that its answers hold
as far as the networks are faithful. The paper solves with Gurobi over 128 units a layer; HiGHS proves nothing there in
the time of a benchmark, so the layers are smaller here, and each record has a time limit.
"""

from dataclasses import dataclass, field

import numpy as np

from benchmarks.rivals.program import Program, add_inputs, add_network, solve_nearest
from benchmarks.rivals.relu import ReluConfig, predict_classes, relu_layers, train_relu
from benchmarks.rivals.rival import NO_QUERIES, Problem, Queries
from models.matrix import Encoded, Records
from models.scoring import Targets


@dataclass(frozen=True, slots=True)
class ProductConfig:
    """`networks` networks, each of which must prefer the target by `margin`; `seconds` for each record."""

    networks: int = 2
    relu: ReluConfig = field(default_factory=lambda: ReluConfig(hidden=(12, 12)))
    margin: float = 1e-3
    seconds: float = 3.0


class ProductMip:
    """A product of ReLU networks and its mixed-integer program."""

    def __init__(self, config: ProductConfig | None = None) -> None:
        self.config = config or ProductConfig()

    @property
    def name(self) -> str:
        return "product_mip"

    @property
    def queries(self) -> Queries:
        return NO_QUERIES

    @property
    def note(self) -> str:
        size = "-".join(str(width) for width in self.config.relu.hidden)
        return f"white box: {self.config.networks} networks of {size} units, {self.config.seconds:g} s for each record"

    def fit(self, problem: Problem) -> None:
        self._encoder = problem.encoder
        points, classes = problem.encoder.encode(problem.training.records), len(problem.encoder.schema.classes)
        seeds = range(problem.seed * 1000, problem.seed * 1000 + self.config.networks)
        labels = problem.training.labels
        self._nets = [train_relu(points, labels, classes, self.config.relu, seed) for seed in seeds]

    def explain(self, records: Records, target: Targets) -> Records:
        points = self._encoder.encode(records)
        ends = points.copy()
        for wanted in np.unique(target):
            rows = np.flatnonzero(target == wanted)
            ends[rows] = self._solve_class(points[rows], int(wanted))
        return self._encoder.decode(ends, origin=records)

    def surrogate_classes(self, records: Records) -> Targets:
        """What most networks say of records (n, F) -> (n,); among equals the first class"""
        points, classes = self._encoder.encode(records), len(self._encoder.schema.classes)
        said = np.stack([predict_classes(net, points) for net in self._nets])
        counts = np.stack([(said == each).sum(axis=0) for each in range(classes)])
        named: Targets = counts.argmax(axis=0).astype(np.int64)
        return named

    def _solve_class(self, points: Encoded, target: int) -> Encoded:
        """points (n, D), all with one target -> the nearest accepted points (n, D), or the points themselves"""
        program = Program()
        inputs = add_inputs(program, self._encoder)
        for net in self._nets:
            logits = add_network(program, inputs.columns, relu_layers(net))
            for other in range(len(logits.constant)):
                if other != target:
                    lead = logits.matrix[target] - logits.matrix[other]
                    least = self.config.margin - float(logits.constant[target] - logits.constant[other])
                    program.add_row(lead, least, np.inf)
        rules, ends = program.matrix(), points.copy()
        for row, point in enumerate(points):
            found = solve_nearest(program, rules, inputs, self._encoder, point, self.config.seconds)
            ends[row] = point if found is None else found
        return ends
