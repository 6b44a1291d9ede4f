"""How much time a request has left."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.errors import DeadlineError
from models.errors import EnsembleError


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


@asynccontextmanager
async def until(deadline: float, records: int) -> AsyncIterator[None]:
    """What is inside is cancelled at the deadline, a moment of time.monotonic(), which is the event loop's clock.

    Models that had not answered by then are no fault of theirs.
    """
    try:
        async with asyncio.timeout_at(None if math.isinf(deadline) else deadline):
            yield
    except (TimeoutError, EnsembleError) as error:
        if isinstance(error, EnsembleError) and time.monotonic() < deadline:
            raise
        raise DeadlineError(f"the deadline passed before {records} records were answered: allow more time") from None
