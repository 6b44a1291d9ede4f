"""What every data set is: a frame, its label, and what its schema needs to be told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True, eq=False)
class Dataset:
    """A frame with its label column; `overrides` are those of `Schema.with_overrides`, kinds included."""

    name: str
    frame: pd.DataFrame
    label: str
    overrides: Mapping[str, object] = field(default_factory=dict)
