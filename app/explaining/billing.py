"""Which answer tells of which charge: what a search paid before it broke off is told by the one that repeats it.

The second search asks the same records, which are free by then: the bill knows what they cost.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.blackbox.cache import record_keys
from app.blackbox.deadline import Deadline
from models.ensemble.protocol import Ensemble
from models.matrix import Records


class PaidEnsemble(Ensemble, Protocol):
    """An ensemble that knows what each record of the last call cost (n,), even if the call failed."""

    @property
    def charges(self) -> NDArray[np.intp]: ...


class Bill:
    """What a batch paid for each record, and how much of it the answers tell."""

    def __init__(self) -> None:
        self._paid: Counter[bytes] = Counter()
        self._told: Counter[bytes] = Counter()

    def tell(self, keys: Sequence[bytes], paid: NDArray[np.intp]) -> NDArray[np.intp]:
        """Add what was paid for records (n,) just now; what is to be told of each (n,): that, and what nobody told."""
        told = np.zeros(len(keys), dtype=np.intp)
        for position, (key, cost) in enumerate(zip(keys, paid.tolist(), strict=True)):
            self._paid[key] += cost
            told[position] = self._paid[key] - self._told[key]
            self._told[key] = self._paid[key]
        return told

    def mark(self) -> Counter[bytes]:
        """A moment to go back to."""
        return self._told.copy()

    def told_since(self, mark: Counter[bytes]) -> int:
        return self._told.total() - mark.total()

    def back_to(self, mark: Counter[bytes]) -> None:
        """The search since then broke off: what it told nobody has read."""
        self._told = mark


class BilledEnsemble:
    """An ensemble whose charges are what the bill says, and that is asked nothing after the deadline."""

    def __init__(self, ensemble: PaidEnsemble, bill: Bill, deadline: Deadline) -> None:
        self.member_names = ensemble.member_names
        self.classes = ensemble.classes
        self._ensemble = ensemble
        self._bill = bill
        self._deadline = deadline
        self._charges = np.zeros(0, dtype=np.intp)

    @property
    def charges(self) -> NDArray[np.intp]:
        """What is to be told of each record of the last call (n,)."""
        return self._charges

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> probabilities (m, n, K)"""
        self._deadline.check(f"{len(records)} records")
        keys = record_keys(records)
        try:
            return self._ensemble.predict_proba(records)
        finally:
            self._charges = self._bill.tell(keys, self._ensemble.charges)
