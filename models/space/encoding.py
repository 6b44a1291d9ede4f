"""Records to points of the encoded space and back (METHOD.md, section 1; paper, appendix "Data Preparation").

A numeric feature is one z-scored column. The levels of a categorical one are points on a line, a simplex or a circle
(models/space/codings.py); where missing values were seen in training, "missing" is the last level.
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
from .codings import ENCODINGS, Coding, Encoding, codings_of
from .feasible import FeasibleSet

JSON_VERSION = 1


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
    encoding: Encoding = "simplex"

    @classmethod
    def fit(cls, schema: Schema, records: Records, encoding: Encoding = "simplex") -> "Encoder":
        """records (n, F) of the training split, n >= 1"""
        if len(records) == 0:
            raise DataError("There are 0 training records; the encoder needs at least 1.")
        statistics = [_fit_column(feature, records[:, j]) for j, feature in enumerate(schema.features)]
        fill, mean, scale = np.array(statistics, dtype=np.float64).T
        return cls(schema, fill.copy(), mean.copy(), scale.copy(), encoding)

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """The encoded columns of each feature: one for a numeric, as many as its coding takes for a categorical."""
        widths = [1] * len(self.schema.features)
        for features, coding in self._codings:
            for j in features:
                widths[j] = coding.width
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
        numeric = self._numeric
        if not self.blocks:
            return (filled - numeric.mean) / numeric.scale
        points = np.empty((len(records), self.width))
        points[:, numeric.columns] = (filled[:, numeric.features] - numeric.mean) / numeric.scale
        for block in self.blocks:
            points[:, block.columns] = block.coding.points(filled[:, block.features].astype(np.intp))
        return points

    def encode_feature(self, j: int, values: Records) -> Encoded:
        """values (...), raw ones of feature j, NaN where missing -> its W columns (..., W)"""
        filled = np.where(np.isnan(values), self.fill[j], values)
        if not self.schema.features[j].is_categorical:
            numbers: Encoded = ((filled - self.mean[j]) / self.scale[j])[..., None]
            return numbers
        block, position = self._place[j]
        points: Encoded = block.coding.table[position, filled.astype(np.intp)]
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
        for block in self.blocks:
            permitted = None if feasible is None else feasible.levels[:, block.features]
            levels = block.coding.nearest(encoded[:, block.columns], permitted, may_miss[:, block.features])
            records[:, block.features] = levels
        records[may_miss & (records == self.fill)] = np.nan
        return records if feasible is None else np.where(feasible.movable, records, feasible.origin)

    def to_json(self) -> dict[str, object]:
        """A plain dict; json writes a float so that it reads back bit by bit."""
        arrays = {"fill": self.fill.tolist(), "mean": self.mean.tolist(), "scale": self.scale.tolist()}
        document = {"version": JSON_VERSION, "schema": self.schema.to_json(), **arrays}
        # Encoders from before there was a choice are circles and say nothing of it; without categories all are one.
        return document if self.encoding == "circle" or not self.blocks else document | {"encoding": self.encoding}

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
        if (encoding := document.get("encoding", "circle")) not in ENCODINGS:
            raise ArtifactError(f"The encoder has the unknown encoding {encoding!r}; use a newer recourse.")
        return cls(parsed, fill, mean, scale, encoding)

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
    def _codings(self) -> list[tuple[list[int], Coding]]:
        return codings_of(self.schema.features, self.encoding)

    @cached_property
    def blocks(self) -> "tuple[CategoryBlock, ...]":
        """The categorical features, in groups that are encoded alike."""
        return tuple(
            CategoryBlock(
                features=np.array(features, dtype=np.intp),
                columns=np.array([self.columns[j].start for j in features])[:, None] + np.arange(coding.width),
                coding=coding,
            )
            for features, coding in self._codings
        )

    @cached_property
    def _place(self) -> "dict[int, tuple[CategoryBlock, int]]":
        """The block of each categorical feature, and where it stands in it."""
        return {j: (block, position) for block in self.blocks for position, j in enumerate(block.features.tolist())}


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
class CategoryBlock:
    """C categorical features that are encoded alike: features (C,), columns (C, W)."""

    features: NDArray[np.intp]
    columns: NDArray[np.intp]
    coding: Coding


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
