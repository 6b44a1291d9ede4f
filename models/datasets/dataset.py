"""A data set (a frame, its label and the overrides of its schema), and its three splits as encoded records.

The splits are 6:2:2 in every class; the encoder is fitted to the training split alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import Records, Targets
from ..data.frames import labels_to_codes, to_records
from ..data.infer import infer_schema
from ..data.schema import Schema
from ..errors import DataError
from ..space.codings import Encoding
from ..space.encoding import Encoder


@dataclass(frozen=True, eq=False)
class Labelled:
    """Records (n, F) and their class codes (n,)."""

    records: Records
    labels: Targets

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A frame with its label column; `overrides` are those of `Schema.with_overrides`, kinds included."""

    name: str
    frame: pd.DataFrame
    label: str
    overrides: Mapping[str, object] = field(default_factory=dict)


_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers in ascending order; together they are all rows, each one once."""

    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]


def split(labels: NDArray[np.int64], seed: int) -> Split:
    """labels (n,), three rows or more a class; a class is never absent from a part, however rare it is"""
    random = np.random.default_rng(seed)
    train: list[NDArray[np.intp]] = []
    validation: list[NDArray[np.intp]] = []
    test: list[NDArray[np.intp]] = []
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        if len(rows) < 3:
            raise DataError(f"Class {label} has {len(rows)} rows; a split in three needs at least 3.")
        size = max(1, round(_SHARE * len(rows)))
        test.append(rows[:size])
        validation.append(rows[size : 2 * size])
        train.append(rows[2 * size :])
    return Split(*(np.sort(np.concatenate(part)) for part in (train, validation, test)))


@dataclass(frozen=True, eq=False)
class Splits:
    """The three parts of a data set, and the encoder that was fitted to the first."""

    encoder: Encoder
    training: Labelled
    validation: Labelled
    test: Labelled


def split_dataset(dataset: Dataset, seed: int, encoding: Encoding = "simplex", for_advice: bool = False) -> Splits:
    """The seed decides the split alone, 6:2:2 in every class. for_advice: see `infer_schema`"""
    schema = infer_schema(dataset.frame, dataset.label, dataset.overrides, for_advice)
    return split_frame(schema, dataset.frame, seed, encoding)


def split_frame(schema: Schema, frame: pd.DataFrame, seed: int, encoding: Encoding = "simplex") -> Splits:
    """The same for a schema that is known; the frame has its columns and its label."""
    if schema.label not in frame.columns:
        columns = ", ".join(map(str, frame.columns))
        raise DataError(f"There is no label column '{schema.label}'; the columns are {columns}.")
    records, labels = to_records(schema, frame), labels_to_codes(schema, frame[schema.label])
    if lacking := [name for code, name in enumerate(schema.classes) if code not in labels]:
        raise DataError(f"No row has the label {', '.join(lacking)}; the classes are {', '.join(schema.classes)}.")
    parts = split(labels, seed)
    training, validation, test = (
        Labelled(records[rows], labels[rows]) for rows in (parts.train, parts.validation, parts.test)
    )
    return Splits(Encoder.fit(schema, training.records, encoding), training, validation, test)
