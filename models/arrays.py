"""Records as one float matrix: what the encoder, the ensembles and the search all pass around.

A record matrix has one column a feature, in the order of the schema. A numeric or integer feature holds its raw value,
a categorical one the index of its category; a missing value is NaN, whatever the kind.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Targets = NDArray[np.int64]


Probabilities: TypeAlias = NDArray[np.float64]
"""(n, K), rows sum to 1."""

Codes: TypeAlias = NDArray[np.int64]
"""(n,) class codes, 0..K-1."""


Records: TypeAlias = NDArray[np.float64]
"""(n, F) raw values, category indices and NaN."""

Encoded: TypeAlias = NDArray[np.float64]
"""(n, D) points of the encoded space: z-scores and points on unit circles."""


Floats = NDArray[np.float64]
