"""A data set made ready for one run: encoded, and split in three."""

from dataclasses import dataclass

import pandas as pd

from models.datasets import Dataset, split
from models.encoding import Encoder
from models.errors import DataError
from models.frames import labels_to_codes, to_records
from models.infer import infer_schema
from models.schema import Schema
from models.training import Labelled


@dataclass(frozen=True, eq=False)
class Study:
    """The three parts of a data set, and the encoder that was fitted to the first."""

    encoder: Encoder
    training: Labelled
    validation: Labelled
    test: Labelled


def make_study(dataset: Dataset, seed: int) -> Study:
    """The seed decides the split alone, 6:2:2 in every class."""
    return study_of(infer_schema(dataset.frame, dataset.label, dataset.overrides), dataset.frame, seed)


def study_of(schema: Schema, frame: pd.DataFrame, seed: int) -> Study:
    """The same for a schema that is known; the frame has its columns and its label."""
    if schema.label not in frame.columns:
        columns = ", ".join(map(str, frame.columns))
        raise DataError(f"There is no label column '{schema.label}'; the columns are {columns}.")
    records, labels = to_records(schema, frame), labels_to_codes(schema, frame[schema.label])
    parts = split(labels, seed)
    training, validation, test = (
        Labelled(records[rows], labels[rows]) for rows in (parts.train, parts.validation, parts.test)
    )
    return Study(Encoder.fit(schema, training.records), training, validation, test)
