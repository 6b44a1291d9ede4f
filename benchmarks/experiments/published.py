"""What the paper reports, table by table: the figures that ours stand beside.

The numbers of the tables are those of the printed paper; what it shows only as a picture has no figures here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean, and its standard deviation or interval where the paper gives one."""

    value: float
    std: float | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is not None:
            return f"{self.value:g} [{self.low:g}, {self.high:g}]"
        return f"{self.value:g}" if self.std is None else f"{self.value:g} ± {self.std:g}"


Key: TypeAlias = tuple[str, str, str]
"""Data set, variant, measure."""
Figures: TypeAlias = Mapping[Key, Figure]

FIVE = ("product_mip", "ceflow", "betarce", "argument", "densityflow")

_TABLE_2: Mapping[str, Sequence[tuple[float, float, float, float]]] = {
    # cost, its deviation, validity, its deviation; in the order of FIVE
    "moons": [
        (1.214, 0.463, 0.492, 0.005),
        (1.194, 0.252, 0.991, 0.004),
        (0.992, 0.082, 0.789, 0.004),
        (0.890, 0.109, 0.951, 0.042),
        (0.867, 0.101, 0.997, 0.002),
    ],
    "circles": [
        (0.512, 0.117, 0.637, 0.014),
        (1.195, 0.087, 0.845, 0.027),
        (0.605, 0.162, 0.762, 0.031),
        (0.699, 0.097, 0.991, 0.001),
        (0.683, 0.008, 0.994, 0.001),
    ],
    "spirals": [
        (1.262, 0.510, 0.482, 0.003),
        (0.895, 0.104, 0.877, 0.074),
        (0.220, 0.084, 0.631, 0.060),
        (0.356, 0.034, 0.943, 0.067),
        (0.487, 0.139, 0.972, 0.005),
    ],
    "chessboard": [
        (0.940, 0.629, 0.332, 0.022),
        (0.804, 0.071, 0.575, 0.008),
        (0.729, 0.408, 0.622, 0.235),
        (1.114, 0.028, 0.959, 0.013),
        (1.088, 0.152, 0.964, 0.011),
    ],
    "adult": [
        (3.725, 0.006, 0.687, 0.001),
        (3.959, 0.463, 0.691, 0.064),
        (2.610, 0.101, 0.752, 0.010),
        (1.916, 0.025, 0.659, 0.011),
        (1.597, 0.194, 0.901, 0.052),
    ],
    "compas": [
        (1.631, 0.017, 0.479, 0.005),
        (0.995, 0.282, 0.385, 0.058),
        (1.410, 0.005, 0.592, 0.003),
        (1.542, 0.001, 0.610, 0.006),
        (1.176, 0.017, 0.729, 0.067),
    ],
    "heloc": [
        (3.148, 0.709, 0.444, 0.044),
        (2.707, 0.085, 0.542, 0.023),
        (1.640, 0.122, 0.765, 0.016),
        (3.091, 0.026, 0.662, 0.018),
        (1.812, 0.599, 0.757, 0.035),
    ],
    "blood": [
        (1.454, 0.038, 0.378, 0.018),
        (1.556, 0.142, 0.414, 0.060),
        (1.573, 0.045, 0.285, 0.192),
        (1.548, 0.063, 0.509, 0.007),
        (1.527, 0.401, 0.662, 0.046),
    ],
}


def _table_2() -> dict[Key, Figure]:
    found: dict[Key, Figure] = {}
    for dataset, methods in _TABLE_2.items():
        for method, (cost, cost_std, validity, validity_std) in zip(FIVE, methods, strict=True):
            found[dataset, method, "cost"] = Figure(cost, cost_std)
            found[dataset, method, "validity"] = Figure(validity, validity_std)
    return found


def _grid(measure: str, variants: Sequence[str], table: Mapping[str, Sequence[float]]) -> dict[Key, Figure]:
    """One measure: a row a data set, a column a variant"""
    pairs = ((name, zip(variants, values, strict=True)) for name, values in table.items())
    return {(name, variant, measure): Figure(value) for name, row in pairs for variant, value in row}


def _deviating(
    measure: str, variants: Sequence[str], table: Mapping[str, Sequence[tuple[float, float]]]
) -> dict[Key, Figure]:
    """As `_grid`, with standard deviations"""
    pairs = ((name, zip(variants, values, strict=True)) for name, values in table.items())
    return {(name, variant, measure): Figure(*value) for name, row in pairs for variant, value in row}


_ABLATION = {  # Table 3
    "adult": [(0.901, 0.052), (0.815, 0.132), (0.767, 0.044)],
    "blood": [(0.662, 0.046), (0.495, 0.033), (0.531, 0.004)],
    "compas": [(0.729, 0.067), (0.642, 0.052), (0.698, 0.054)],
    "heloc": [(0.757, 0.036), (0.718, 0.095), (0.734, 0.038)],
}
_PENALTY_COST = {  # Table 7
    "adult": [(1.597, 0.194), (1.636, 0.173)],
    "compas": [(1.176, 0.017), (1.781, 0.026)],
    "heloc": [(1.812, 0.599), (1.824, 0.524)],
    "blood": [(1.527, 0.401), (1.519, 0.318)],
}
_PENALTY_VALIDITY = {
    "adult": [(0.901, 0.052), (0.873, 0.046)],
    "compas": [(0.729, 0.067), (0.715, 0.059)],
    "heloc": [(0.757, 0.035), (0.744, 0.028)],
    "blood": [(0.662, 0.046), (0.718, 0.084)],
}
_PROXIES = {  # Table 8
    "adult": [0.815, 0.823, 0.878, 0.886, 0.901],
    "blood": [0.495, 0.424, 0.560, 0.696, 0.662],
    "compas": [0.642, 0.689, 0.645, 0.720, 0.729],
    "heloc": [0.718, 0.728, 0.681, 0.742, 0.757],
}
_SPEARMAN = {  # Table 9
    "adult": [0.2558, 0.4015, 0.5067, 0.4317, 0.3425, 0.5276],
    "compas": [0.8226, 0.7348, 0.6757, 0.6301, 0.6026, 0.5994],
    "heloc": [0.3957, 0.2884, 0.5673, 0.5481, 0.4891, 0.3949],
    "blood": [0.1296, 0.6935, 0.1933, 0.4540, 0.5088, 0.6513],
}
ESTIMATORS = ("oc-svm", "pca+kde", "mahalanobis", "isoforest", "elliptic", "knn")
_RATIOS = ("0.1", "0.2", "0.3", "0.5", "1.0")  # Table 10
_RATIO_COST = {
    "adult": [(1.529, 0.178), (1.597, 0.194), (1.580, 0.165), (1.533, 0.144), (1.507, 0.175)],
    "compas": [(1.172, 0.022), (1.235, 0.020), (1.294, 0.018), (1.318, 0.027), (1.363, 0.059)],
}
_RATIO_VALIDITY = {
    "adult": [(0.859, 0.116), (0.901, 0.052), (0.887, 0.049), (0.873, 0.044), (0.895, 0.042)],
    "compas": [(0.682, 0.102), (0.729, 0.067), (0.710, 0.046), (0.757, 0.082), (0.744, 0.044)],
}
_RANGES = ("0.2", "0.5", "1.0", "2.0", "data")
_RANGE_COST = {
    "adult": [(3.742, 0.556), (2.934, 0.603), (1.857, 0.210), (1.355, 0.108), (1.597, 0.194)],
    "compas": [(0.694, 0.024), (1.054, 0.023), (1.093, 0.015), (1.180, 0.016), (1.176, 0.017)],
}
_RANGE_VALIDITY = {
    "adult": [(0.662, 0.187), (0.727, 0.103), (0.892, 0.032), (0.883, 0.038), (0.901, 0.052)],
    "compas": [(0.567, 0.147), (0.653, 0.091), (0.684, 0.036), (0.726, 0.055), (0.729, 0.067)],
}
_DISAGREEMENT = {  # Table 11: rho, tail, delta, each with its interval
    "adult": [(0.207, 0.187, 0.259), (2.024, 1.571, 2.649), (0.033, 0.031, 0.037)],
    "compas": [(0.238, 0.195, 0.286), (1.626, 1.363, 1.956), (0.017, 0.015, 0.018)],
    "heloc": [(0.216, 0.171, 0.258), (1.793, 1.592, 2.039), (0.026, 0.024, 0.027)],
    "blood": [(0.187, 0.125, 0.337), (1.556, 1.121, 2.056), (0.012, 0.011, 0.014)],
}
_SECONDS = {  # Table 12
    "spirals": [704.7, 394.6, 747.9, 205.7, 655.6],
    "heloc": [335.1, 881.5, 427.3, 647.7, 734.0],
}
_LOF = {"spirals": [1.29, 1.25, 1.13, 1.16, 1.07], "heloc": [1.54, 2.59, 3.17, 1.07, 1.04]}  # Table 13
_ISOFOREST = {"spirals": [0.53, 0.59, 0.49, 0.50, 0.48], "heloc": [0.44, 0.48, 0.57, 0.42, 0.42]}
_MUSK = {"top-5": (8.57, 0.86), "top-10": (8.73, 0.85), "top-20": (10.26, 0.80)}  # Table 14


def _disagreement() -> dict[Key, Figure]:
    return {
        (dataset, "density", measure): Figure(value, low=low, high=high)
        for dataset, row in _DISAGREEMENT.items()
        for measure, (value, low, high) in zip(("rho", "tail", "delta"), row, strict=True)
    }


def _musk() -> dict[Key, Figure]:
    costs = {("musk", variant, "cost"): Figure(cost) for variant, (cost, _) in _MUSK.items()}
    return costs | {("musk", variant, "validity"): Figure(validity) for variant, (_, validity) in _MUSK.items()}


PAPER: Mapping[str, Figures] = {
    "table2": _table_2(),
    "ablation": _deviating("validity", ("full", "without density", "without distillation"), _ABLATION),
    "penalty": _deviating("cost", ("endpoint", "path"), _PENALTY_COST)
    | _deviating("validity", ("endpoint", "path"), _PENALTY_VALIDITY),
    "proxies": _grid("validity", ("none", "disc2", "knn", "lof", "nce"), _PROXIES),
    "spearman": _grid("rho", ESTIMATORS, _SPEARMAN),
    "noise_ratio": _deviating("cost", _RATIOS, _RATIO_COST) | _deviating("validity", _RATIOS, _RATIO_VALIDITY),
    "noise_range": _deviating("cost", _RANGES, _RANGE_COST) | _deviating("validity", _RANGES, _RANGE_VALIDITY),
    "disagreement": _disagreement(),
    "run_time": _grid("seconds", FIVE, _SECONDS),
    "plausibility": _grid("lof", FIVE, _LOF) | _grid("isoforest", FIVE, _ISOFOREST),
    "musk": _musk(),
    "sex": {  # Table 15
        ("adult", "queries", "female"): Figure(0.4991),
        ("adult", "counterfactuals", "female"): Figure(0.4302),
    },
}
"""By experiment."""
