"""What the metered proxy asks of a black box: any ensemble can be made into one, see local.py and remote.py."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.blackbox.deadline import Deadline
from models.matrix import Records


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
