"""What the method asks of a black-box ensemble, and nothing more."""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..arrays import Records


class Ensemble(Protocol):
    """m black-box models over one schema; `records` (n, F) holds raw values, see models/matrix.py."""

    @property
    def member_names(self) -> tuple[str, ...]: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> probabilities (m, n, K), rows sum to 1; a member that did not answer is NaN."""
        ...


@runtime_checkable
class Charging(Protocol):
    """An ensemble that keeps what it was told, so that not every record costs a query."""

    @property
    def charges(self) -> NDArray[np.intp]:
        """What each record of the last call cost (n,): 0 where its answer was known, more than 1 after retries."""
        ...


def charges_of(ensemble: Ensemble, count: int) -> NDArray[np.intp]:
    """What each of the `count` records of the last call cost (n,): one query each, unless the ensemble knows better."""
    return ensemble.charges if isinstance(ensemble, Charging) else np.ones(count, dtype=np.intp)
