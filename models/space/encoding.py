"""Records to points of the encoded space and back (METHOD.md, section 1; paper, appendix "Data Preparation").

A numeric feature is one z-scored column. A categorical one with K levels is a point on the unit circle, level k at the
angle 2*pi*k/K, in two columns; where missing values were seen in training, "missing" is the last of the K levels.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ..arrays import Encoded, Records
from ..data.grid import Grid, snap
from ..data.schema import Feature, Schema
from ..errors import ArtifactError, DataError, SolverError
from .feasible import FeasibleSet

JSON_VERSION = 1
_TURN = 2.0 * np.pi


@dataclass(frozen=True, eq=False)
class Circles:
    """C categorical features side by side.

    categories (C,)  the number of categories of each
    nullable   (C,)  whether one more level, after the last category, stands for a missing value
    """

    categories: NDArray[np.intp]
    nullable: NDArray[np.bool_]

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """(C,) levels of each circle, the missing one included"""
        return self.categories + self.nullable

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """(C, Kmax, 2) the point of each level

        A table and not a call a record: a vectorised cosine may round by where the value stands in the array.
        """
        angles = np.arange(self.counts.max(initial=0)) * (_TURN / self.counts[:, None])
        return np.stack([np.cos(angles), np.sin(angles)], axis=-1)

    def points(self, levels: NDArray[np.intp]) -> NDArray[np.float64]:
        """levels (n, C) -> points (n, C, 2)"""
        points: NDArray[np.float64] = self.table[np.arange(len(self.counts)), levels]
        return points

    def nearest(
        self, points: NDArray[np.float64], permitted: NDArray[np.bool_] | None, missing: NDArray[np.bool_]
    ) -> NDArray[np.intp]:
        """The nearest permitted level of each point.

        points (n, C, 2), anywhere in the plane; permitted (n, C, K) categories, None for all; missing (n, C) whether
        the missing level is permitted -> (n, C)
        """
        angles = np.arctan2(points[..., 1], points[..., 0])
        levels: NDArray[np.intp] = np.rint(angles * (self.counts / _TURN)).astype(np.intp) % self.counts
        refused = (levels == self.categories) & ~missing
        if permitted is not None:
            category = np.minimum(levels, self.categories - 1)[..., None]
            refused |= (levels < self.categories) & ~np.take_along_axis(permitted, category, axis=2)[..., 0]
        rows, which = np.nonzero(refused)
        if len(rows):
            choice = self._choice(which, None if permitted is None else permitted[rows, which], missing[rows, which])
            levels[rows, which] = self._nearest_of(angles[rows, which], which, choice)
        return levels

    def _choice(
        self, which: NDArray[np.intp], permitted: NDArray[np.bool_] | None, missing: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """which (m,) of the C features, permitted (m, K), missing (m,) -> the levels to choose from (m, Kmax)"""
        levels, categories = np.arange(self.counts.max()), self.categories[which]
        choice = levels < categories[:, None]
        if permitted is not None:
            choice[:, : permitted.shape[1]] &= permitted[:, : choice.shape[1]]
        choice |= (levels == categories[:, None]) & (missing & self.nullable[which])[:, None]
        return choice

    def _nearest_of(
        self, angles: NDArray[np.float64], which: NDArray[np.intp], choice: NDArray[np.bool_]
    ) -> NDArray[np.intp]:
        """angles (m,), which (m,), choice (m, Kmax) with a True in each row -> levels (m,)"""
        closeness = np.cos(angles[:, None] - np.arange(choice.shape[1]) * (_TURN / self.counts[which, None]))
        nearest: NDArray[np.intp] = np.where(choice, closeness, -2.0).argmax(axis=1)
        return nearest


def cost(a: Encoded, b: Encoded) -> NDArray[np.float64]:
    """The L2 distance between the rows of a (n, D) and b (n, D) or (D,) -> (n,)"""
    distance: NDArray[np.float64] = np.linalg.norm(np.asarray(a) - np.asarray(b), axis=-1)
    return distance


@dataclass(frozen=True, eq=False)
class Encoder:
    """The encoding that was fitted to the training records.

    fill   (F,)  what stands for a missing value: the median, the mode, or the index of the missing level
    mean   (F,)  of the training values; 0 for a categorical
    scale  (F,)  their standard deviation; 1 for a categorical
    """

    schema: Schema
    fill: NDArray[np.float64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, schema: Schema, records: Records) -> "Encoder":
        """records (n, F) of the training split, n >= 1"""
        if len(records) == 0:
            raise DataError("There are 0 training records; the encoder needs at least 1.")
        statistics = [_fit_column(feature, records[:, j]) for j, feature in enumerate(schema.features)]
        fill, mean, scale = np.array(statistics, dtype=np.float64).T
        return cls(schema, fill.copy(), mean.copy(), scale.copy())

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """The encoded columns of each feature: one for a numeric, two (cosine, sine) for a categorical."""
        widths = [2 if feature.is_categorical else 1 for feature in self.schema.features]
        ends = accumulate(widths)
        return tuple(slice(end - width, end) for end, width in zip(ends, widths, strict=True))

    @property
    def width(self) -> int:
        """D, the number of encoded columns."""
        return len(self.feature_of_column)

    @cached_property
    def feature_of_column(self) -> NDArray[np.intp]:
        """(D,) the index of the feature that each encoded column belongs to"""
        return np.repeat(np.arange(len(self.columns)), [where.stop - where.start for where in self.columns])

    def encode(self, records: Records) -> Encoded:
        """records (n, F), NaN where missing -> points (n, D)"""
        gone = np.isnan(records)
        filled = np.where(gone, self.fill, records) if gone.any() else records
        numeric, categorical = self._numeric, self._categorical
        if not len(categorical.features):
            return (filled - numeric.mean) / numeric.scale
        points = np.empty((len(records), self.width))
        points[:, numeric.columns] = (filled[:, numeric.features] - numeric.mean) / numeric.scale
        levels = filled[:, categorical.features].astype(np.intp)
        points[:, categorical.columns] = categorical.circles.points(levels)
        return points

    def encode_feature(self, j: int, values: Records) -> Encoded:
        """values (...), raw ones of feature j, NaN where missing -> its columns (..., 1 or 2)"""
        filled = np.where(np.isnan(values), self.fill[j], values)
        if not self.schema.features[j].is_categorical:
            numbers: Encoded = ((filled - self.mean[j]) / self.scale[j])[..., None]
            return numbers
        circle = int(np.searchsorted(self._categorical.features, j))
        points: Encoded = self._categorical.circles.table[circle, filled.astype(np.intp)]
        return points

    def decode(self, encoded: Encoded, origin: Records | None = None, feasible: FeasibleSet | None = None) -> Records:
        """points (n, D) -> records (n, F) on the grid, within the bounds and within `feasible`.

        origin (n, F) are the records that the points came from: a value that is missing there stays missing where the
        point did not move, and one that lies off the grid or beyond the bounds stays where it is the nearest; without
        it no value is missing, and all lie on the grid. `feasible` brings its own origin.
        """
        if not np.isfinite(encoded).all():
            row = int(np.argmin(np.isfinite(encoded).all(axis=1)))
            raise SolverError(f"Point {row} of {len(encoded)} is not finite, so it stands for no record.")
        shape = (len(encoded), len(self.schema.features))
        if feasible is not None:
            may_miss = feasible.missing
        else:
            may_miss = np.zeros(shape, dtype=np.bool_) if origin is None else np.isnan(origin)
        records = np.empty(shape)
        records[:, self._numeric.features] = self._decode_numbers(encoded, origin, feasible)
        records[:, self._categorical.features] = self._decode_levels(encoded, may_miss, feasible)
        records[may_miss & (records == self.fill)] = np.nan
        return records if feasible is None else np.where(feasible.movable, records, feasible.origin)

    def to_json(self) -> dict[str, object]:
        """A plain dict; json writes a float so that it reads back bit by bit."""
        arrays = {"fill": self.fill.tolist(), "mean": self.mean.tolist(), "scale": self.scale.tolist()}
        return {"version": JSON_VERSION, "schema": self.schema.to_json(), **arrays}

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> "Encoder":
        schema = document.get("schema")
        if document.get("version") != JSON_VERSION or not isinstance(schema, Mapping):
            found = document.get("version")
            raise ArtifactError(f"The encoder is of version {found!r}, not {JSON_VERSION}; train it again.")
        parsed = Schema.from_json(schema)
        fill, mean, scale = (_read_array(document, key, len(parsed.features)) for key in ("fill", "mean", "scale"))
        if not (scale > 0).all():
            raise ArtifactError(f"The encoder's 'scale' holds {scale.min()}, which is not above 0; train it again.")
        return cls(parsed, fill, mean, scale)

    def _decode_numbers(self, encoded: Encoded, origin: Records | None, feasible: FeasibleSet | None) -> Records:
        """points (n, D) -> the values of the N numeric features (n, N): each the nearest of the grid and its own"""
        numeric = self._numeric
        with np.errstate(over="ignore"):  # a point may lie anywhere; the clip brings an overflow back
            raw = encoded[:, numeric.columns] * numeric.scale + numeric.mean
        if feasible is not None:
            lower, upper = feasible.lower[:, numeric.features], feasible.upper[:, numeric.features]
            own = feasible.origin[:, numeric.features]
        elif origin is not None:
            own = origin[:, numeric.features]
            lower, upper = np.fmin(numeric.lower, own), np.fmax(numeric.upper, own)
        else:
            return numeric.grid.snap(np.clip(raw, numeric.lower, numeric.upper))
        raw = np.clip(raw, lower, upper)
        snapped = numeric.grid.snap(raw)
        return np.where(np.abs(raw - own) < np.abs(raw - snapped), own, snapped)

    def _decode_levels(self, encoded: Encoded, may_miss: NDArray[np.bool_], feasible: FeasibleSet | None) -> Records:
        """points (n, D), may_miss (n, F) -> the levels of the C categorical features (n, C)"""
        where = self._categorical
        permitted = None if feasible is None else feasible.levels[:, where.features]
        levels = where.circles.nearest(encoded[:, where.columns], permitted, may_miss[:, where.features])
        return levels.astype(np.float64)

    @cached_property
    def _numeric(self) -> "_Numeric":
        features = [j for j, feature in enumerate(self.schema.features) if not feature.is_categorical]
        chosen = [self.schema.features[j] for j in features]
        return _Numeric(
            features=np.array(features, dtype=np.intp),
            columns=np.array([self.columns[j].start for j in features], dtype=np.intp),
            mean=self.mean[features],
            scale=self.scale[features],
            lower=np.array([feature.lower for feature in chosen]),
            upper=np.array([feature.upper for feature in chosen]),
            grid=Grid.of([feature.step for feature in chosen]),
        )

    @cached_property
    def _categorical(self) -> "_Categorical":
        features = [j for j, feature in enumerate(self.schema.features) if feature.is_categorical]
        chosen = [self.schema.features[j] for j in features]
        starts = np.array([self.columns[j].start for j in features], dtype=np.intp)
        circles = Circles(
            np.array([len(feature.categories) for feature in chosen], dtype=np.intp),
            np.array([feature.nullable for feature in chosen], dtype=np.bool_),
        )
        return _Categorical(np.array(features, dtype=np.intp), np.stack([starts, starts + 1], axis=-1), circles)


@dataclass(frozen=True, eq=False)
class _Numeric:
    """Where the N numeric features stand and how they are scaled; all arrays (N,)."""

    features: NDArray[np.intp]
    columns: NDArray[np.intp]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    grid: Grid


@dataclass(frozen=True, eq=False)
class _Categorical:
    """Where the C categorical features stand: features (C,), columns (C, 2)."""

    features: NDArray[np.intp]
    columns: NDArray[np.intp]
    circles: Circles


def _fit_column(feature: Feature, column: NDArray[np.float64]) -> tuple[float, float, float]:
    """column (n,) of training values -> what fills a missing one, mean, scale"""
    present = column[~np.isnan(column)]
    if feature.is_categorical and feature.nullable:
        return float(len(feature.categories)), 0.0, 1.0
    if not len(present):
        raise DataError(f"Column '{feature.name}' holds no value in the {len(column)} training records; drop it.")
    if feature.is_categorical:
        return float(np.bincount(present.astype(np.intp)).argmax()), 0.0, 1.0
    fill = float(snap(np.clip(np.median(present), feature.lower, feature.upper), feature.step))
    filled = np.where(np.isnan(column), fill, column)
    # A value that the split left constant has no spread of its own; its range keeps the scale finite.
    return fill, float(filled.mean()), float(filled.std()) or feature.upper - feature.lower


def _read_array(document: Mapping[str, object], key: str, length: int) -> NDArray[np.float64]:
    """`length` finite numbers from the document -> (length,)"""
    values = document.get(key)
    numbers = values if isinstance(values, list) else []
    if len(numbers) != length or not all(isinstance(number, float) and math.isfinite(number) for number in numbers):
        raise ArtifactError(f"The encoder's '{key}' is not a list of {length} numbers; train it again.")
    return np.array(numbers, dtype=np.float64)
