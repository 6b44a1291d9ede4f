"""A circuit breaker: an endpoint that keeps failing is left alone for a while."""

import time
from collections.abc import Callable
from threading import Lock


class CircuitBreaker:
    """Opens after `threshold` failures in a row; after `cooldown` seconds one try is let through and may close it."""

    def __init__(self, threshold: int = 5, cooldown: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._threshold = threshold
        self._cooldown = cooldown
        self._clock = clock
        self._lock = Lock()
        self._failures = 0
        self._opened_at: float | None = None
        self._trying = False

    @property
    def would_allow(self) -> bool:
        """Whether `allow` would say yes now."""
        with self._lock:
            return self._allows()

    def allow(self) -> bool:
        """Whether to ask; each yes must be followed by `succeeded` or `failed`."""
        with self._lock:
            allowed = self._allows()
            self._trying = self._trying or (allowed and self._opened_at is not None)
            return allowed

    def succeeded(self) -> None:
        with self._lock:
            self._failures = 0
            self._opened_at = None
            self._trying = False

    def failed(self) -> None:
        with self._lock:
            self._failures += 1
            self._trying = False
            if self._failures >= self._threshold:
                self._opened_at = self._clock()

    def _allows(self) -> bool:
        if self._opened_at is None:
            return True
        return not self._trying and self._clock() - self._opened_at >= self._cooldown
