"""Whether the service could do its work now, part by part."""

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from anyio import create_task_group, move_on_after, to_thread
from sqlalchemy import text

from app.db.engine import Database
from app.resources import Resources

PART_SECONDS = 4.0
"""A part that has not answered by then counts as away."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part; `reason` says why it is not ready."""

    name: str
    ready: bool
    reason: str | None = None


async def check_parts(resources: Resources) -> list[Part]:
    """Database, queue, worker and disk, asked at the same time."""
    checks: dict[str, Callable[[], Awaitable[str | None]]] = {
        "database": lambda: to_thread.run_sync(_database, resources.database, abandon_on_cancel=True),
        "queue": lambda: to_thread.run_sync(_queue, resources, abandon_on_cancel=True),
        "worker": lambda: _worker(resources),
        "disk": lambda: to_thread.run_sync(_disk, resources, abandon_on_cancel=True),
    }
    found: dict[str, Part] = {}

    async def check(name: str, ask: Callable[[], Awaitable[str | None]]) -> None:
        found[name] = Part(name, False, f"it did not answer within {PART_SECONDS:g} s")
        with move_on_after(PART_SECONDS):
            try:
                reason = await ask()
            except Exception as error:
                # Whatever it is, it is this part that is not ready; the message could hold an address or a password.
                reason = f"it failed with {type(error).__name__}"
            found[name] = Part(name, reason is None, reason)

    async with create_task_group() as group:
        for name, ask in checks.items():
            group.start_soon(check, name, ask)
    return [found[name] for name in checks]


def _database(database: Database) -> str | None:
    with database.reading() as connection:
        connection.execute(text("SELECT 1 FROM jobs WHERE 1 = 0"))
    return None


def _queue(resources: Resources) -> str | None:
    return None if resources.queue.healthy() else "the training queue does not answer"


async def _worker(resources: Resources) -> str | None:
    state = await resources.explainer.state()
    return None if state.ready else state.reason or "no explainer answers"


def _disk(resources: Resources) -> str | None:
    folder, least = resources.settings.var_dir, resources.settings.min_free_bytes
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    return None if free >= least else f"{free} bytes are free in VAR_DIR, {least} are needed"
