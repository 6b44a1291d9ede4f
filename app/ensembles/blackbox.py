"""What the metered proxy asks of a black box: any ensemble can be made into one, see local.py and remote.py.

An ensemble in this process, as a black box.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.concurrency import Deadline
from models.arrays import Records
from models.ensemble.protocol import Ensemble
from models.errors import EnsembleError


@dataclass(frozen=True, slots=True)
class MissingVote:
    """A member that did not answer, and why; `passing` says that another try may help."""

    member: str
    reason: str
    passing: bool


@dataclass(frozen=True, slots=True)
class BoxAnswer:
    """probabilities (members asked, n, K), NaN where a member did not answer; each of those is named in `missing`."""

    probabilities: NDArray[np.float64]
    missing: tuple[MissingVote, ...]


class BlackBox(Protocol):
    """m models that can be asked one by one."""

    @property
    def member_names(self) -> tuple[str, ...]: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    def reachable(self) -> frozenset[int]:
        """The members that are worth asking now; the others would not answer, and asking is charged."""
        ...

    def ask(self, records: Records, members: tuple[int, ...], deadline: Deadline) -> BoxAnswer:
        """Put records (n, F) to some of the members; one that fails is missing from the answer, it does not raise."""
        ...


class LocalBlackBox:
    """Any `Ensemble`: it is asked as a whole, whichever members are wanted, and cannot be stopped while it thinks."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.member_names = ensemble.member_names
        self.classes = ensemble.classes
        self._ensemble = ensemble

    def close(self) -> None:
        """Nothing is open."""

    def reachable(self) -> frozenset[int]:
        return frozenset(range(len(self.member_names)))

    def ask(self, records: Records, members: tuple[int, ...], deadline: Deadline) -> BoxAnswer:
        """records (n, F) -> probabilities (len(members), n, K)"""
        try:
            answered = np.asarray(self._ensemble.predict_proba(records), dtype=np.float64)
        except EnsembleError as error:
            nothing = np.full((len(members), len(records), len(self.classes)), np.nan)
            return BoxAnswer(nothing, tuple(MissingVote(self.member_names[m], str(error), True) for m in members))
        expected = (len(self.member_names), len(records), len(self.classes))
        if answered.shape != expected:
            raise EnsembleError(f"the ensemble answered with shape {answered.shape}, its protocol says {expected}")
        chosen = answered[list(members)]
        silent = np.isnan(chosen).any(axis=(1, 2))
        missing = (MissingVote(self.member_names[m], "did not answer", True) for m in np.array(members)[silent])
        return BoxAnswer(chosen, tuple(missing))
