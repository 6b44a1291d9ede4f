"""How the API tells a trainer that there is work: two queues implement it, spawned.py and redis_queue.py."""

from typing import Protocol
from uuid import UUID


class TrainingQueue(Protocol):
    """A bell, not a store: the jobs table is the truth, and a ring that is lost loses nothing."""

    def ring(self, job_id: UUID) -> None:
        """Say that the job waits. Its row is committed before; ringing twice is harmless; it never raises."""
        ...

    def healthy(self) -> bool:
        """Whether a ring now would reach the queue; for /readyz."""
        ...

    def close(self) -> None:
        """Let go of what the queue holds; a spawned trainer is stopped, its job goes on when the next one starts."""
        ...
