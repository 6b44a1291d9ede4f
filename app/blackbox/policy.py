"""How an ensemble is asked, and what it answered."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.blackbox.protocol import MissingVote
from models.errors import ConfigError


@dataclass(frozen=True, slots=True)
class QueryPolicy:
    """How an ensemble is asked.

    required: members that must answer for each record, by default more than half of them. attempts: tries for a member
    that fails in passing, each one charged. retry_seconds: the pause before a further try. chunk: records in one call.
    """

    required: int | None = None
    attempts: int = 2
    retry_seconds: float = 0.2
    chunk: int = 256

    def __post_init__(self) -> None:
        counts = (self.attempts, self.chunk, 1 if self.required is None else self.required)
        if min(counts) < 1 or self.retry_seconds < 0:
            raise ConfigError(f"{self} makes no sense: the counts are 1 or more, and retry_seconds is 0 or more")

    def required_of(self, members: int) -> int:
        """How many of so many members must answer."""
        required = members // 2 + 1 if self.required is None else self.required
        if required > members:
            raise ConfigError(f"{required} members are required, but the ensemble has only {members}")
        return required


@dataclass(frozen=True, slots=True)
class MeteredAnswer:
    """probabilities (m, n, K), NaN for a missing vote; each member that is missing somewhere is named with a reason."""

    probabilities: NDArray[np.float64]
    missing: tuple[MissingVote, ...]
    charged: int
    reused: int
