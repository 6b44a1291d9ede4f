"""How much time a request has left."""

import math
import time
from dataclasses import dataclass

from app.errors import DeadlineError


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock after which nothing more is asked."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    @classmethod
    def never(cls) -> "Deadline":
        return cls(math.inf)

    @property
    def remaining(self) -> float:
        """Seconds left, not below 0."""
        return max(0.0, self.at - time.monotonic())

    def check(self, still_to_do: str) -> None:
        """Raise DeadlineError, which says what was left to do, if the time is over."""
        if self.remaining <= 0.0:
            raise DeadlineError(f"the deadline passed with {still_to_do} still to ask: allow more time or ask for less")
