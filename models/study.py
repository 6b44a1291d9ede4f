"""A data set made ready for one run: encoded, and split in three."""

from dataclasses import dataclass

from models.datasets import Dataset, split
from models.encoding import Encoder
from models.frames import labels_to_codes, to_records
from models.infer import infer_schema
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
    schema = infer_schema(dataset.frame, dataset.label, dataset.overrides)
    records, labels = to_records(schema, dataset.frame), labels_to_codes(schema, dataset.frame[dataset.label])
    parts = split(labels, seed)
    training, validation, test = (
        Labelled(records[rows], labels[rows]) for rows in (parts.train, parts.validation, parts.test)
    )
    return Study(Encoder.fit(schema, training.records), training, validation, test)
