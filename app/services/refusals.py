"""Requests that were refused, counted by tenant and reason while this process runs: nothing of a refusal is stored."""

from collections import Counter
from datetime import datetime
from threading import Lock

from app.ledger.ledger import utc_now


class Refusals:
    """Of one process; a service of several API processes has several of these."""

    def __init__(self) -> None:
        self.since: datetime = utc_now()
        self._counts: Counter[tuple[int, str, str]] = Counter()
        self._lock = Lock()

    def count(self, tenant_id: int, word: str, title: str) -> None:
        with self._lock:
            self._counts[tenant_id, word, title] += 1

    def of(self, tenant_id: int) -> list[tuple[str, str, int]]:
        """(the problem's word, its title, how often), the most frequent first."""
        with self._lock:
            found = [(word, title, count) for (owner, word, title), count in self._counts.items() if owner == tenant_id]
        return sorted(found, key=lambda one: (-one[2], one[0]))
