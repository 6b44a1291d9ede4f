"""How long a test waits: for a condition, within a bound that RECOURSE_TEST_PATIENCE scales on a slow machine."""

import asyncio
import os
import time
from collections.abc import Callable

PATIENCE = float(os.environ.get("RECOURSE_TEST_PATIENCE", "1"))
"""Every bound is so many times as long: 10 on a machine that is ten times slower than a laptop of today."""
SECONDS = 900.0
BOUND = SECONDS * PATIENCE
"""Seconds that nothing takes but what never ends; a test that waits for anything waits so long at the most."""


def wait_until(reached: Callable[[], object], seconds: float = BOUND) -> None:
    """Until it is so"""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


async def until(reached: Callable[[], object], seconds: float = BOUND) -> None:
    """Until it is so; the event loop goes on meanwhile."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.005)
