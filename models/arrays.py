"""Records as one float matrix: what the encoder, the ensembles and the search all pass around.

A record matrix has one column a feature, in the order of the schema. A numeric or integer feature holds its raw value,
a categorical one the index of its category; a missing value is NaN, whatever the kind.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Records: TypeAlias = NDArray[np.float64]
"""(n, F) raw values, category indices and NaN."""

Encoded: TypeAlias = NDArray[np.float64]
"""(n, D) points of the encoded space: z-scores and points on unit circles."""

Probabilities: TypeAlias = NDArray[np.float64]
"""(n, K), rows sum to 1."""

Codes: TypeAlias = NDArray[np.int64]
"""(n,) class codes, 0..K-1."""

Targets: TypeAlias = NDArray[np.int64]
"""(n,) codes of the classes that are asked for."""

Floats: TypeAlias = NDArray[np.float64]
"""Any other numbers; the docstring says their shape."""
