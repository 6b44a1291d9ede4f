"""What the watcher counts as an answer, and which processes it counts."""

import asyncio
import json
import os
import subprocess
import sys

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from benchmarks.hostile.watcher import Probe, Watch, Watched, sample, watch_calls, with_children
from tests.servers.http import serving


def test_calls_are_made_in_turn_until_it_is_over() -> None:
    heard: list[tuple[str, str, str, bytes]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        heard.append((request.method, request.url.path, request.headers["Authorization"], body))
        await PlainTextResponse("", 503 if request.url.path == "/readyz" else 200)(scope, receive, send)

    async def scenario(url: str) -> None:
        probes = [Probe("readyz", "/readyz", 0.01), Probe("explain", "/explain", 0.01, ["[1]", "[2]"])]
        watch = Watch.read(
            json.dumps({"url": url, "key": "rk_x", "pids": "", "probes": [vars_of(one) for one in probes]})
        )
        done = asyncio.Event()
        watching = asyncio.create_task(watch_calls(watch, done))
        while len(heard) < 10:
            await asyncio.sleep(0.01)
        done.set()
        calls = await watching
        assert {(call.probe, call.status) for call in calls} == {("readyz", 503), ("explain", 200)}
        assert all(call.seconds > 0 for call in calls)

    with serving(app) as url:
        asyncio.run(scenario(url))
    assert {one[:3] for one in heard} == {("GET", "/readyz", "Bearer rk_x"), ("POST", "/explain", "Bearer rk_x")}
    assert [body for method, _, _, body in heard if method == "POST"][:3] == [b"[1]", b"[2]", b"[1]"]


def vars_of(probe: Probe) -> dict[str, object]:
    return {name: getattr(probe, name) for name in Probe.__dataclass_fields__}


def test_nobody_there_is_no_answer() -> None:
    async def scenario() -> None:
        done = asyncio.Event()
        done_soon = asyncio.get_running_loop().call_later(0.2, done.set)
        calls = await watch_calls(Watch("http://127.0.0.1:1", "rk_x", [Probe("livez", "/livez", 0.01)], ""), done)
        assert {call.status for call in calls} == {0} and not done_soon.cancelled()

    asyncio.run(scenario())


def test_children_count_and_trainings_are_told_apart() -> None:
    code = "import sys; held = bytearray(64 * 2**20); print(flush=True); sys.stdin.read()"
    before = sample([os.getpid()])
    for name, counted in (("worker.other", True), ("worker.job", False)):
        with subprocess.Popen(
            [sys.executable, "-c", code, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            assert child.pid in with_children([os.getpid()])
            found = sample([os.getpid()])
            assert (found.resident_mb > before.resident_mb + 60) == counted
            assert (found.training_mb > 60) == (not counted)
            child.communicate()
    assert before.threads >= 1 and before.descriptors >= 3 and 0 < before.worked <= found.worked


def test_what_was_seen_survives_the_pipe() -> None:
    text = json.dumps(
        {
            "calls": [{"probe": "livez", "at": 1.0, "seconds": 0.1, "status": 200}],
            "samples": [
                {"at": 1.0, "resident_mb": 2.0, "threads": 3, "descriptors": 4, "training_mb": 5.0, "worked": 6.0}
            ],
        }
    )
    watched = Watched.read(text)
    assert watched.calls[0].probe == "livez" and watched.samples[0].training_mb == 5.0
