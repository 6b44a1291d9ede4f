"""`recourse demo` as a child process that is interrupted: it ends, with all that it started."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.artifacts import open_store
from app.auth import queries
from app.auth.keyring import open_keyring
from app.auth.service import DEFAULT_TENANT, set_up
from app.db.engine import open_database
from app.ensembles import directory
from app.ledger.ledger import Ledger
from app.settings import Settings
from tests.app.ledger import CHAIN_KEY
from tests.fakes.lending import make_lending
from tests.patience import BOUND, wait_until
from tests.published import publish, save_two
from tests.servers.running import free_port

MODEL = "loans"


@pytest.fixture(scope="module")
def trained(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a demo that has trained before: a small model under the demo's name."""
    folder = tmp_path_factory.mktemp("demo") / "var"
    folder.mkdir()
    shutil.copy(sqlite_template, folder / "recourse.db")
    settings = Settings(var_dir=folder)
    database = open_database(settings.database)
    set_up(settings, database, open_keyring(settings, database))
    with database.reading() as connection:
        tenant_id = queries.find_tenant(connection, DEFAULT_TENANT)
    assert tenant_id is not None
    saved, _ = save_two(make_lending(), folder.parent / "saved")
    publish(database, open_store(settings), tenant_id, MODEL, saved)
    with database.reading() as connection:
        row = directory.find_ensemble(connection, tenant_id, MODEL)
    assert row is not None
    Ledger(database, CHAIN_KEY).set_limit(tenant_id, row.id, 1000)
    database.close()
    return folder


@contextmanager
def demo(folder: Path, port: int) -> Iterator["subprocess.Popen[str]"]:
    """In a session of its own, as a terminal would have it; whatever it leaves behind is killed."""
    command = [sys.executable, "-c", "from app.cli import main; main()", "demo", "--port", str(port)]
    environment = os.environ | {"RECOURSE_VAR_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        for pid in [process.pid, *started_with(folder)]:
            if process.poll() is None or pid != process.pid:
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def started_with(folder: Path) -> list[int]:
    """Every process whose environment names the folder, ours aside."""
    wanted, found = f"RECOURSE_VAR_DIR={folder}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_for_line(process: "subprocess.Popen[str]", text: str) -> str:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if text in line:
            return said
    raise AssertionError(f"it ended without saying {text!r}: {said}")


def check_gone(folder: Path, port: int) -> None:
    wait_until(lambda: not started_with(folder))
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


@pytest.mark.parametrize("ending", ["Ctrl-C", "SIGTERM"])
def test_an_interrupted_demo_ends_with_all_that_it_started(trained: Path, ending: str) -> None:
    port = free_port()
    with demo(trained, port) as process:
        said = wait_for_line(process, "Ctrl-C ends it.")
        assert f"Dashboard: http://127.0.0.1:{port}/" in said and "Applicant 1" in said
        assert len(started_with(trained)) >= 2, "the demo and its service"
        if ending == "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.Signals[ending])
        rest, _ = process.communicate(timeout=BOUND)
        assert process.returncode == 0, rest
        assert "Stopping." in rest and "Traceback" not in rest
        check_gone(trained, port)


def test_a_demo_that_is_interrupted_while_it_starts(tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "var"
    with demo(folder, port) as process:
        end = time.monotonic() + BOUND
        while not (folder / "demo.log").exists():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=BOUND)
        assert (process.returncode, "Traceback" in rest) == (130, False), rest
        assert "Stopped." in rest
        check_gone(folder, port)
