"""Product_mip (Leofante et al., 2023): the nearest record that every network of a product accepts, by a MILP.

The black boxes are out of its sight: the networks are trained on the data and stand for them, so that its answers hold
as far as the networks are faithful. The paper solves with Gurobi over 128 units a layer; HiGHS proves little there in
the time of a benchmark, so the layers are smaller here, and each record has a time limit.
"""

from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals.program import Inputs, Program, add_inputs, add_network, solve
from benchmarks.rivals.relu import ReluConfig, predict_classes, relu_layers, target_lead, train_relu
from benchmarks.rivals.rival import NO_QUERIES, Problem, Queries
from models.arrays import Encoded, Records, Targets

SHARES = (0.125, 0.25, 0.5, 1.0)
"""The balls that are searched one after the other, as shares of the distance to the nearest known answer."""
STARTS, HALVINGS = 64, 8
"""Training records that are drawn near to find a known answer, and how often the way is halved."""


@dataclass(frozen=True, slots=True)
class ProductConfig:
    """`networks` networks, each of which must prefer the target by `margin`; `seconds` for each record."""

    networks: int = 2
    relu: ReluConfig = field(default_factory=lambda: ReluConfig(hidden=(24, 24)))
    margin: float = 1e-3
    seconds: float = 10.0


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
        # How many answers are proven to be the nearest differs from run to run: it is a figure, not a note.
        size = "-".join(str(width) for width in self.config.relu.hidden)
        return f"white box: {self.config.networks} networks of {size} units, {self.config.seconds:g} s for each record"

    def fit(self, problem: Problem) -> None:
        self._encoder, self._answered, self._proven = problem.encoder, 0, 0
        points, classes = problem.encoder.encode(problem.training.records), len(problem.encoder.schema.classes)
        seeds = range(problem.seed * 1000, problem.seed * 1000 + self.config.networks)
        labels = problem.training.labels
        self._nets = [train_relu(points, labels, classes, self.config.relu, seed) for seed in seeds]
        self._layers = [relu_layers(net) for net in self._nets]
        self._known = [points[self._accepted(points, target)] for target in range(classes)]

    def _accepted(self, points: Encoded, target: int) -> NDArray[np.bool_]:
        """points (n, D) -> whether every network puts each into the target class, by the margin (n,)"""
        leads = [target_lead(net, points, target) for net in self._nets]
        taken: NDArray[np.bool_] = np.min(leads, axis=0) >= self.config.margin
        return taken

    def explain(self, records: Records, target: Targets) -> Records:
        points = self._encoder.encode(records)
        ends = [self._nearest(point, int(wanted)) for point, wanted in zip(points, target, strict=True)]
        self._answered += len(records)
        return self._encoder.decode(np.array(ends), origin=records)

    def surrogate_classes(self, records: Records) -> Targets:
        """What most networks say of records (n, F) -> (n,); among equals the first class"""
        points, classes = self._encoder.encode(records), len(self._encoder.schema.classes)
        said = np.stack([predict_classes(net, points) for net in self._nets])
        counts = np.stack([(said == each).sum(axis=0) for each in range(classes)])
        named: Targets = counts.argmax(axis=0).astype(np.int64)
        return named

    @property
    def proven(self) -> float:
        """The share of answers that are proven to be the nearest, up to 1%; the time ran out for the others"""
        return self._proven / max(1, self._answered)

    def _nearest(self, point: Encoded, target: int) -> Encoded:
        """point (D,) -> the nearest accepted point (D,), or the point itself

        A point that is known to be accepted bounds the distance and is the answer where time runs out. The search
        starts in a small ball and doubles it: what is found in a ball is nearer than anything outside.
        """
        deadline = perf_counter() + self.config.seconds
        best = self._known_answer(point, target)
        radii = [np.inf] if best is None else [share * float(np.abs(best - point).sum()) for share in SHARES]
        for radius in radii:
            left = deadline - perf_counter()
            if left <= 0:
                break
            found = solve(*self._program(point, target, radius), left)
            if found.point is not None:
                self._proven += found.proven
                return found.point
            if not found.proven:
                break
        return point if best is None else best

    def _known_answer(self, point: Encoded, target: int) -> Encoded | None:
        """A good accepted point (D,): from training records back towards the point, as far as all networks accept"""
        known = self._known[target]
        if not len(known):
            return None
        near = known[np.abs(known - point).sum(axis=1).argsort()[:STARTS]]
        far, back = np.ones(len(near)), np.zeros(len(near))
        for _ in range(HALVINGS):
            middle = (far + back) / 2
            taken = self._accepted(self._on_grid(point + middle[:, None] * (near - point)), target)
            far, back = np.where(taken, middle, far), np.where(taken, back, middle)
        ends = self._on_grid(point + far[:, None] * (near - point))
        for where in self._encoder.columns:
            trial = ends.copy()
            trial[:, where] = point[where]
            taken = self._accepted(trial, target)
            ends[taken] = trial[taken]
        best: Encoded = ends[np.abs(ends - point).sum(axis=1).argmin()]
        return best

    def _on_grid(self, points: Encoded) -> Encoded:
        """points (n, D) -> the points of the records that they decode to (n, D)"""
        return self._encoder.encode(self._encoder.decode(points))

    def _program(self, point: Encoded, target: int, radius: float) -> tuple[Program, Inputs]:
        """Records within the radius of point (D,) that every network puts into the target class"""
        program = Program()
        # The bound itself is one of the answers: a little room keeps it in.
        inputs = add_inputs(program, self._encoder, point, radius * (1 + 1e-6))
        for layers in self._layers:
            logits = add_network(program, inputs.columns, layers)
            for other in range(len(logits.constant)):
                if other != target:
                    lead = logits.matrix[target] - logits.matrix[other]
                    least = self.config.margin - float(logits.constant[target] - logits.constant[other])
                    program.add_row(lead, least, np.inf)
        return program, inputs
