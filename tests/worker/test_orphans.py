"""kill -9 of `recourse worker` as a bare process: its explainer and its trainer end too, and free what they hold."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from app.db.engine import Database
from app.settings import environment_of
from tests.app.conftest import Customer
from tests.patience import wait_until
from tests.servers.redis import own_redis
from tests.servers.worker import make_site


def descendants(pid: int) -> set[int]:
    """Of a process, all generations."""
    found = set[int]()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found |= {int(child)} | descendants(int(child))
    return found


def alive(pid: int) -> bool:
    """Whether it runs; one that ended and that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def redis() -> Iterator[str]:
    with own_redis() as server:
        yield server.url


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_the_parts_end_with_the_worker(
    tmp_path: Path, database: Database, database_url: str, customer: Customer, port: int, redis: str
) -> None:
    places = {"redis_url": SecretStr(redis), "explainer_port": port}
    site = make_site(tmp_path, database, database_url, customer, **places)
    command = [sys.executable, "-c", "from app.cli import main; main()", "worker"]
    worker = subprocess.Popen(command, env=os.environ | environment_of(site.settings))
    parts = set[int]()
    try:
        wait_until(lambda: answers(port))
        # The trainer has started when it takes a job.
        job = site.submit(site.request)
        wait_until(lambda: site.job(job).state == "running")
        parts = descendants(worker.pid)
        assert len(parts) == 3, "an explainer, a trainer, a training"
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        wait_until(lambda: not any(map(alive, parts)))
        assert not answers(port)
        assert site.job(job).state in ("queued", "running")
    finally:
        worker.kill()
        worker.wait()
        for part in filter(alive, parts):
            os.kill(part, signal.SIGKILL)


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/livez", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
