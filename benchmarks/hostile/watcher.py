"""Watches the service while it is attacked, in a process of its own: `python -m benchmarks.hostile.watcher`.

It reads a `Watch` as JSON from the first line of stdin, calls the service as an honest tenant does until stdin ends,
and writes a `Watched` to stdout. Each call has a new connection: a service that takes no more of them is not well.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import httpx

PATIENCE = 30.0
"""Seconds after which a call counts as never answered."""
SAMPLE_SECONDS = 0.1
PAGE, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
TRAINING = b"worker.job"
"""A training's own process works for whoever ordered it: its memory is told apart."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A call that is repeated; the bodies are taken in turn, none: a GET."""

    name: str
    path: str
    every: float
    bodies: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched. `pids` is a file with the processes that were started, which may change."""

    url: str
    key: str
    probes: list[Probe]
    pids: str

    @classmethod
    def read(cls, text: str) -> Self:
        given = json.loads(text)
        return cls(**given | {"probes": [Probe(**probe) for probe in given["probes"]]})


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a probe: when it began, how long it took, and its status, 0 where there was no answer."""

    probe: str
    at: float
    seconds: float
    status: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The processes at one moment: resident megabytes, threads and descriptors of all, and the seconds that processors
    worked for them; megabytes of trainings."""

    at: float
    resident_mb: float
    threads: int
    descriptors: int
    training_mb: float
    worked: float


@dataclass(frozen=True, slots=True)
class Watched:
    """Everything that was seen; times are those of the machine's monotonic clock."""

    calls: list[Call]
    samples: list[Sample]

    @classmethod
    def read(cls, text: str) -> Self:
        given: dict[str, list[dict[str, Any]]] = json.loads(text)
        return cls([Call(**one) for one in given["calls"]], [Sample(**one) for one in given["samples"]])


def with_children(pids: Iterable[int]) -> Iterator[int]:
    """The processes and all that they started; those that end meanwhile are left out."""
    for pid in pids:
        yield pid
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError):
                    yield from with_children(map(int, (task / "children").read_text().split()))


def sample(pids: Iterable[int]) -> Sample:
    """The processes and their children as they are."""
    resident = training = worked = 0.0
    threads = descriptors = 0
    for pid in set(with_children(pids)):
        process = Path(f"/proc/{pid}")
        with suppress(OSError):
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            name, parent = (process / "cmdline").read_bytes(), Path(f"/proc/{fields[1]}")
            if name == (parent / "cmdline").read_bytes():
                continue  # It is just being started, and has its parent's memory.
            megabytes = int((process / "statm").read_text().split()[1]) * PAGE / 2**20
            if TRAINING in name:
                training += megabytes
                continue
            resident += megabytes
            worked += sum(map(int, fields[11:13])) / TICKS
            threads += len(os.listdir(process / "task"))  # noqa: PTH208
            descriptors += len(os.listdir(process / "fd"))  # noqa: PTH208
    return Sample(time.monotonic(), resident, threads, descriptors, training, worked)


async def call_again(watch: Watch, probe: Probe, done: asyncio.Event, calls: list[Call]) -> None:
    """The probe's calls, one after the other, until it is done."""
    bodies = cycle(probe.bodies or [""])
    headers = {"Authorization": f"Bearer {watch.key}", "Content-Type": "application/json"}
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=watch.url, headers=headers, timeout=PATIENCE, limits=limits) as http:
        while not done.is_set():
            began, status = time.monotonic(), 0
            with suppress(httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    method = "POST" if probe.bodies else "GET"
                    status = (await http.request(method, probe.path, content=next(bodies) or None)).status_code
            calls.append(Call(probe.name, began, time.monotonic() - began, status))
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), probe.every)


async def watch_calls(watch: Watch, done: asyncio.Event) -> list[Call]:
    calls = list[Call]()
    await asyncio.gather(*(call_again(watch, probe, done, calls) for probe in watch.probes))
    return sorted(calls, key=lambda call: call.at)


def watch_processes(pids: Path, done: Event, samples: list[Sample]) -> None:
    while not done.wait(SAMPLE_SECONDS):
        samples.append(sample(json.loads(pids.read_text())))


async def _run(watch: Watch) -> Watched:
    loop, done, ended = asyncio.get_running_loop(), asyncio.Event(), Event()
    samples = list[Sample]()
    looking = Thread(target=watch_processes, args=(Path(watch.pids), ended, samples))
    looking.start()

    def end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(done.set)

    Thread(target=end, daemon=True).start()
    try:
        return Watched(await watch_calls(watch, done), samples)
    finally:
        ended.set()
        looking.join()


def main() -> int:
    watched = asyncio.run(_run(Watch.read(sys.stdin.readline())))
    json.dump(asdict(watched), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
