"""The service as an operator runs it, for its benchmark: real processes, and a model of the loans."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

import httpx
import numpy as np
from pydantic import SecretStr
from sqlalchemy import update

from app.artifacts import open_store
from app.auth import queries
from app.auth.keyring import open_keyring
from app.auth.service import add_tenant
from app.db import migrations
from app.db.engine import open_database
from app.db.tables import Job, JobState
from app.settings import Settings, environment_of
from models.data.records import check_record
from models.datasets.loans import loans
from models.errors import RecordError
from models.storage.artifact import load_model
from models.storage.sealed import check_seal
from tests.published import Saved, publish

Mode = Literal["embedded", "workers"]
MODEL, TARGET = "loans", "approved"
START_SECONDS = 240.0
IDLE_SECONDS = 2
TICKS = os.sysconf("SC_CLK_TCK")
RECOURSE = (sys.executable, "-c", "from app.cli import main; main()")
WORKER_KEY = "between us"


@dataclass(frozen=True, slots=True)
class Site:
    """A running service: its address, a client's key, and the processes that serve."""

    url: str
    metrics_url: str
    key: str
    pids: tuple[int, ...]


def refused_records(folder: Path, count: int) -> list[dict[str, object]]:
    """Applicants that the model's schema can read and that were refused."""
    features = load_model(folder).encoder.schema
    dataset = loans(4 * count, seed=9)
    frame = dataset.frame[dataset.frame[dataset.label] != TARGET].drop(columns=[dataset.label])
    found: list[dict[str, object]] = []
    for record in frame.astype(object).where(frame.notna(), None).to_dict("records"):
        plain = {str(name): value.item() if isinstance(value, np.generic) else value for name, value in record.items()}
        try:
            check_record(features, plain)
        except RecordError:
            continue
        found.append(plain)
    return found[:count]


def bodies(records: Sequence[dict[str, object]], each: int) -> list[str]:
    """Requests of `each` records, every record once."""
    parts = [records[start : start + each] for start in range(0, len(records) - each + 1, each)]
    return [json.dumps({"model": MODEL, "target": TARGET, "records": part}) for part in parts]


@contextmanager
def running(mode: Mode, folder: Path, var_dir: Path, database_url: str | None) -> Iterator[Site]:
    """The service with the model in the folder: API and explainer in one process, or in two."""
    url = database_url or f"sqlite:///{var_dir / 'recourse.db'}"
    port, worker_port = _free_port(), _free_port()
    settings = Settings(
        var_dir=var_dir,
        database_url=SecretStr(url),
        worker_key=SecretStr(WORKER_KEY),
        explainer_url=f"http://127.0.0.1:{worker_port}" if mode == "workers" else None,
        log_level="warning",
        min_free_bytes=0,
    )
    key = publish_model(settings, folder)
    commands = {port: [*RECOURSE, "serve", "--port", str(port)]}
    if mode == "workers":
        commands[worker_port] = [sys.executable, "-m", "worker.explain_server", "--port", str(worker_port)]
    with ExitStack() as stack:
        processes = [stack.enter_context(_process(command, settings)) for command in commands.values()]
        addresses = [f"http://127.0.0.1:{number}" for number in commands]
        for address, process in zip(addresses, processes, strict=True):
            _wait_for(address, process)
        _wait_until_idle([process.pid for process in processes])
        yield Site(addresses[0], f"{addresses[-1]}/metrics", key, tuple(process.pid for process in processes))


def publish_model(settings: Settings, folder: Path) -> str:
    """The model as a version of a new tenant; a key of the tenant."""
    database, name = open_database(settings.database), uuid4().hex
    migrations.upgrade(database)
    key = add_tenant(database, open_keyring(settings, database), name).text
    with database.reading() as connection:
        tenant_id = queries.find_tenant(connection, name)
    assert tenant_id is not None
    publish(database, open_store(settings), tenant_id, MODEL, Saved(folder, check_seal(folder), load_model(folder)))
    with database.writing() as connection:
        # Else the trainer takes it up, fails, and starts again beside what is measured.
        connection.execute(update(Job).values(state=JobState.DONE.value))
    database.close()
    return key


@contextmanager
def _process(command: list[str], settings: Settings) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(command, env=os.environ | environment_of(settings), stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            if httpx.get(f"{address}/livez", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"the server on {address} did not start")
        time.sleep(0.1)


def _wait_until_idle(pids: Sequence[int]) -> None:
    """An embedded service starts its trainer beside itself: what is measured is a service that has started."""
    end = time.monotonic() + START_SECONDS
    before, still = -1.0, 0
    while still < IDLE_SECONDS and time.monotonic() < end:
        time.sleep(1)
        now = sum(processor_seconds(pid) for pid in _with_children(pids))
        still, before = (still + 1 if now - before < 0.1 else 0), now


def _with_children(pids: Sequence[int]) -> list[int]:
    children = [
        int(child)
        for pid in pids
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return [*pids, *(_with_children(children) if children else [])]


def processor_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
