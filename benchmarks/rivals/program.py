"""A mixed-integer linear program over records and ReLU networks, built once and solved for many records.

Variables: a raw value for each number (whole where the feature is), a choice for each category, the distance of each
number from the record, and two for each neuron whose sign is open: its output and whether it is on.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from models.encoding import Encoder
from models.matrix import Encoded
from models.schema import Kind

Floats = NDArray[np.float64]
Layers = list[tuple[Floats, Floats]]


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
    """How a record appears in the program: its encoded columns, and the distance variable of each number."""

    columns: Affine
    away: NDArray[np.intp]
    numeric: NDArray[np.intp]
    choices: tuple[tuple[int, NDArray[np.intp]], ...]


def add_inputs(program: Program, encoder: Encoder) -> Inputs:
    """Every number within its bounds, every category one of its own"""
    features = encoder.schema.features
    numeric = np.array([j for j, feature in enumerate(features) if not feature.is_categorical], dtype=np.intp)
    raw: dict[int, NDArray[np.intp]] = {}
    for j, feature in enumerate(features):
        if feature.is_categorical:
            count = len(feature.categories)
            raw[j] = program.add_variables(np.zeros(count), np.ones(count), whole=True)
        else:
            whole = feature.kind is Kind.INTEGER and feature.step == 1.0
            raw[j] = program.add_variables(np.array([feature.lower]), np.array([feature.upper]), whole)
    away = program.add_variables(np.zeros(len(numeric)), np.full(len(numeric), np.inf))
    columns = _columns(program, encoder, raw)
    for j, feature in enumerate(features):
        if feature.is_categorical:
            one = np.zeros(len(program.low))
            one[raw[j]] = 1.0
            program.add_row(one, 1.0, 1.0)
    choices = tuple((j, raw[j]) for j, feature in enumerate(features) if feature.is_categorical)
    return Inputs(columns, away, numeric, choices)


def _columns(program: Program, encoder: Encoder, raw: dict[int, NDArray[np.intp]]) -> Affine:
    """The encoded columns (D) as expressions of the raw values"""
    matrix, constant = np.zeros((encoder.width, len(program.low))), np.zeros(encoder.width)
    low, high = np.full(encoder.width, -1.0), np.full(encoder.width, 1.0)
    for j, feature in enumerate(encoder.schema.features):
        where = encoder.columns[j]
        if feature.is_categorical:
            levels = np.arange(len(feature.categories), dtype=np.float64)
            matrix[where, raw[j]] = encoder.encode_feature(j, levels).T
            continue
        matrix[where, raw[j]] = 1.0 / encoder.scale[j]
        constant[where] = -encoder.mean[j] / encoder.scale[j]
        low[where], high[where] = (np.array([feature.lower, feature.upper]) - encoder.mean[j]) / encoder.scale[j]
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


def solve_nearest(
    program: Program, rules: LinearConstraint, inputs: Inputs, encoder: Encoder, point: Encoded, seconds: float
) -> Encoded | None:
    """The encoded point nearest to point (D,) by the sum of absolute differences; None where none was found in time"""
    width = len(program.low)
    objective = np.zeros(width)
    objective[inputs.away] = 1.0
    for j, positions in inputs.choices:
        levels = encoder.encode_feature(j, np.arange(len(positions), dtype=np.float64))
        objective[positions] = np.abs(levels - point[encoder.columns[j]]).sum(axis=1)
    columns = np.array([encoder.columns[j].start for j in inputs.numeric], dtype=np.intp)
    reach = np.zeros((2 * len(columns), width))
    reach[: len(columns), : inputs.columns.matrix.shape[1]] = -inputs.columns.matrix[columns]
    reach[len(columns) :, : inputs.columns.matrix.shape[1]] = inputs.columns.matrix[columns]
    reach[np.arange(2 * len(columns)), np.tile(inputs.away, 2)] = 1.0
    gap = inputs.columns.constant[columns] - point[columns]
    found = milp(
        objective,
        integrality=np.array(program.whole),
        bounds=Bounds(np.array(program.low), np.array(program.high)),
        constraints=[rules, LinearConstraint(reach, np.concatenate([gap, -gap]), np.inf)],
        options={"time_limit": seconds, "mip_rel_gap": 0.01},
    )
    if found.x is None:
        return None
    values: Floats = found.x[: inputs.columns.matrix.shape[1]]
    nearest: Encoded = inputs.columns.matrix @ values + inputs.columns.constant
    return nearest
