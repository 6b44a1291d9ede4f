"""A mixed-integer linear program over the records near a point and over ReLU networks.

Variables: a raw value for each number (whole where the feature is), a choice for each category, the distance of each
number from the record, and two for each neuron whose sign is open: its output and whether it is on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from models.arrays import Encoded
from models.data.schema import FeatureKind
from models.space.encoding import Encoder

Floats = NDArray[np.float64]
Layers = list[tuple[Floats, Floats]]
INFEASIBLE = 2
"""The solver's word for a program that nothing meets."""


@dataclass
class Affine:
    """r expressions: coefficients (r, variables so far) and constants (r,), between low and high (r,)"""

    matrix: Floats
    constant: Floats
    low: Floats
    high: Floats


@dataclass
class Program:
    """Rows say lower <= coefficients . v <= upper; a row may be shorter than the variables that came later."""

    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    rows: list[tuple[Floats, float, float]] = field(default_factory=list)

    def add_variables(self, low: Floats, high: Floats, whole: bool = False) -> NDArray[np.intp]:
        """Variables between low and high (r,) -> their positions (r,)"""
        first = len(self.low)
        self.low += low.tolist()
        self.high += high.tolist()
        self.whole += [int(whole)] * len(low)
        return np.arange(first, len(self.low))

    def add_row(self, coefficients: Floats, lower: float, upper: float) -> None:
        self.rows.append((coefficients, lower, upper))

    def matrix(self) -> LinearConstraint:
        full = np.zeros((len(self.rows), len(self.low)))
        for position, (coefficients, _, _) in enumerate(self.rows):
            full[position, : len(coefficients)] = coefficients
        return LinearConstraint(full, [row[1] for row in self.rows], [row[2] for row in self.rows])


@dataclass(frozen=True, eq=False)
class Inputs:
    """How a record appears in the program: its encoded columns, and what each variable so far adds to the distance."""

    columns: Affine
    distance: Floats


def add_inputs(program: Program, encoder: Encoder, point: Encoded, radius: float) -> Inputs:
    """Records within `radius` of point (D,) by the sum of absolute differences: each number, each category's choice.

    The smaller the radius, the fewer neurons of a network are open, which is what makes the program quick.
    """
    features = encoder.schema.features
    raw: list[NDArray[np.intp]] = []
    numbers: list[int] = []
    weights: dict[int, float] = {}
    for j, feature in enumerate(features):
        if feature.is_categorical:
            away = np.abs(_levels(encoder, j, point) - point[encoder.columns[j]]).sum(axis=1)
            raw.append(program.add_variables(np.zeros(len(away)), (away <= radius).astype(np.float64), whole=True))
            weights |= dict(zip(raw[j].tolist(), away.tolist(), strict=True))
            continue
        low, high = _reach(encoder, j, float(point[encoder.columns[j]][0]), radius)
        raw.append(program.add_variables(low, high, feature.kind is FeatureKind.INTEGER and feature.step == 1.0))
        numbers.append(j)
    away_of = program.add_variables(np.zeros(len(numbers)), np.full(len(numbers), radius))
    columns = _columns(program, encoder, raw, point)
    _measure(program, encoder, columns, point, dict(zip(numbers, away_of.tolist(), strict=True)))
    distance = np.zeros(len(program.low))
    distance[away_of] = 1.0
    distance[list(weights)] = list(weights.values())
    for j, feature in enumerate(features):
        if feature.is_categorical:
            one = np.zeros(len(program.low))
            one[raw[j]] = 1.0
            program.add_row(one, 1.0, 1.0)
    if np.isfinite(radius):
        program.add_row(distance, -np.inf, radius)
    return Inputs(columns, distance)


def _levels(encoder: Encoder, j: int, point: Encoded) -> Encoded:
    """The points (K, W) of a category's levels; where point (D,) has none of them, it is missing and may stay so"""
    levels = encoder.encode_feature(j, np.arange(len(encoder.schema.features[j].categories), dtype=np.float64))
    own: Encoded = point[encoder.columns[j]]
    return levels if np.isclose(levels, own).all(axis=1).any() else np.vstack([levels, own])


def _reach(encoder: Encoder, j: int, at: float, radius: float) -> tuple[Floats, Floats]:
    """The raw values (1,) of number j between which it lies within `radius` of `at`"""
    feature = encoder.schema.features[j]
    low, high = (encoder.mean[j] + (at + side * radius) * encoder.scale[j] for side in (-1.0, 1.0))
    own = encoder.mean[j] + at * encoder.scale[j]
    return np.array([min(max(feature.lower, low), own)]), np.array([max(min(feature.upper, high), own)])


def _measure(program: Program, encoder: Encoder, columns: Affine, point: Encoded, away_of: dict[int, int]) -> None:
    """Each distance variable is at least the absolute difference of its number"""
    for j, away in away_of.items():
        where = encoder.columns[j].start
        for sign in (1.0, -1.0):
            row = np.zeros(len(program.low))
            row[: columns.matrix.shape[1]] = -sign * columns.matrix[where]
            row[away] = 1.0
            program.add_row(row, sign * float(columns.constant[where] - point[where]), np.inf)


def _columns(program: Program, encoder: Encoder, raw: Sequence[NDArray[np.intp]], point: Encoded) -> Affine:
    """The encoded columns (D) as expressions of the raw values"""
    matrix, constant = np.zeros((encoder.width, len(program.low))), np.zeros(encoder.width)
    low, high = np.zeros(encoder.width), np.zeros(encoder.width)
    for j, feature in enumerate(encoder.schema.features):
        where = encoder.columns[j]
        if feature.is_categorical:
            levels = _levels(encoder, j, point)
            near = np.array([program.high[position] > 0 for position in raw[j]])
            matrix[where, raw[j]] = levels.T
            low[where], high[where] = levels[near].min(axis=0), levels[near].max(axis=0)
            continue
        matrix[where, raw[j]] = 1.0 / encoder.scale[j]
        constant[where] = -encoder.mean[j] / encoder.scale[j]
        ends = np.array([program.low[raw[j][0]], program.high[raw[j][0]]])
        low[where], high[where] = (ends - encoder.mean[j]) / encoder.scale[j]
    return Affine(matrix, constant, low, high)


def add_network(program: Program, inputs: Affine, layers: Layers) -> Affine:
    """The logits of a network over the inputs"""
    current = inputs
    for weight, bias in layers[:-1]:
        current = _rectify(program, _linear(current, weight, bias))
    return _linear(current, *layers[-1])


def _linear(inputs: Affine, weight: Floats, bias: Floats) -> Affine:
    """weight (out, in), bias (out,); the bounds are those of interval arithmetic"""
    up, down = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
    return Affine(
        weight @ inputs.matrix,
        weight @ inputs.constant + bias,
        up @ inputs.low + down @ inputs.high + bias,
        up @ inputs.high + down @ inputs.low + bias,
    )


def _rectify(program: Program, sums: Affine) -> Affine:
    """max(0, sums); a neuron that is always on or always off needs no choice"""
    count = len(sums.constant)
    open_ones = np.flatnonzero((sums.low < 0) & (sums.high > 0))
    output = program.add_variables(np.zeros(len(open_ones)), sums.high[open_ones])
    switch = program.add_variables(np.zeros(len(open_ones)), np.ones(len(open_ones)), whole=True)
    width = len(program.low)
    matrix, constant = np.zeros((count, width)), np.zeros(count)
    always = np.flatnonzero(sums.low >= 0)
    matrix[always, : sums.matrix.shape[1]], constant[always] = sums.matrix[always], sums.constant[always]
    for neuron, out, on in zip(open_ones, output, switch, strict=True):
        matrix[neuron, out] = 1.0
        above = np.zeros(width)
        above[: sums.matrix.shape[1]] = -sums.matrix[neuron]
        above[out] += 1.0
        program.add_row(above, float(sums.constant[neuron]), np.inf)
        within = above.copy()
        within[on] -= sums.low[neuron]
        program.add_row(within, -np.inf, float(sums.constant[neuron] - sums.low[neuron]))
        capped = np.zeros(width)
        capped[out], capped[on] = 1.0, -sums.high[neuron]
        program.add_row(capped, -np.inf, 0.0)
    return Affine(matrix, constant, np.maximum(sums.low, 0.0), np.maximum(sums.high, 0.0))


@dataclass(frozen=True, slots=True)
class Solved:
    """The nearest point (D,), or None; `proven`, whether there is none nearer (or none at all), up to 1%."""

    point: Encoded | None
    proven: bool


def solve(program: Program, inputs: Inputs, seconds: float) -> Solved:
    """The point of the program that is nearest by the inputs' distance"""
    objective = np.zeros(len(program.low))
    objective[: len(inputs.distance)] = inputs.distance
    found = milp(
        objective,
        integrality=np.array(program.whole),
        bounds=Bounds(np.array(program.low), np.array(program.high)),
        constraints=[program.matrix()],
        options={"time_limit": max(seconds, 0.01), "mip_rel_gap": 0.01},
    )
    if found.x is None:
        return Solved(None, found.status == INFEASIBLE)
    values: Floats = found.x[: inputs.columns.matrix.shape[1]]
    return Solved(inputs.columns.matrix @ values + inputs.columns.constant, found.status == 0)
