"""A caller who hangs up: the work is dropped and cleaned up; whoever else cancels it is not mistaken for that."""

import asyncio

import pytest
from fastapi import Request
from starlette.types import Message

from app.concurrency import unless_gone
from app.errors import DeadlineError


class Caller:
    """Who hangs up when told to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.request = Request({"type": "http"}, self._receive)

    async def _receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}


class Work:
    """It takes long, and cleans up in two steps."""

    def __init__(self) -> None:
        self.begun, self.cleaned = asyncio.Event(), False

    async def run(self) -> str:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            self.cleaned = True
        return "too late"


def test_the_result_comes_through_and_nothing_is_left_behind() -> None:
    async def run() -> None:
        assert await unless_gone(Caller().request, asyncio.sleep(0, "done")) == "done"
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_an_error_of_the_work_comes_through() -> None:
    async def fail() -> None:
        raise ValueError("its own")

    async def run() -> None:
        with pytest.raises(ValueError, match="its own"):
            await unless_gone(Caller().request, fail())

    asyncio.run(run())


def test_who_hangs_up_ends_the_work_and_the_handler_goes_on() -> None:
    async def run() -> None:
        caller, work = Caller(), Work()

        async def handle() -> str:
            with pytest.raises(DeadlineError, match="hung up"):
                await unless_gone(caller.request, work.run())
            # Not cancelled any more: what comes after may wait.
            await asyncio.sleep(0)
            return "logged"

        handling = asyncio.create_task(handle())
        await work.begun.wait()
        caller.gone.set()
        assert await handling == "logged"
        assert work.cleaned and handling.cancelling() == 0

    asyncio.run(run())


@pytest.mark.parametrize("hangs_up", [False, True])
def test_a_server_that_stops_is_not_a_caller_who_hung_up(hangs_up: bool) -> None:
    async def run() -> None:
        caller, work = Caller(), Work()
        handling = asyncio.create_task(unless_gone(caller.request, work.run()))
        await work.begun.wait()
        if hangs_up:
            caller.gone.set()
            await asyncio.sleep(0)
        handling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handling
        assert work.cleaned

    asyncio.run(run())
