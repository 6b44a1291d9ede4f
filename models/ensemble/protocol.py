"""What the method asks of a black-box ensemble, and nothing more."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.matrix import Records


class Ensemble(Protocol):
    """m black-box models over one schema; `records` (n, F) holds raw values, see models/matrix.py."""

    @property
    def member_names(self) -> tuple[str, ...]: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> probabilities (m, n, K), rows sum to 1; a member that did not answer is NaN."""
        ...
