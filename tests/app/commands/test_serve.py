"""`recourse serve` with nothing configured, as a process, from the first key to a graceful end; `recourse tenant`."""

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from app.commands.serve import prepare
from app.db.engine import open_database
from app.settings import Settings
from models.errors import ConfigError
from tests.patience import BOUND, wait_until


@contextmanager
def serve(var_dir: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """The process, its URL and what it said on stderr until then."""
    environment = {**os.environ, "RECOURSE_VAR_DIR": str(var_dir), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from app.cli import main; main()", "serve", "--port", str(port)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if "serves on" in line:
                break
        try:
            yield process, next(word for word in said[-1].split() if word.startswith("http")), said
        finally:
            process.kill()


def wait_ready(http: httpx.Client) -> None:
    """The trainer is a process that takes its time to start."""
    wait_until(lambda: http.get("/readyz").json()["ready"])


def headers_taken(url: str) -> int:
    """Bytes of endless headers that went before the connection was closed, 64 MiB if it never was."""
    address, sent = httpx.URL(url), 0
    with socket.create_connection((address.host, address.port or 80), timeout=BOUND) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        with suppress(ConnectionError):
            while sent < 2**26:
                sent += connection.send(b"X-More: 1\r\n" * 10_000)
    return sent


def test_serve_from_nothing_to_a_graceful_end(tmp_path: Path) -> None:
    with serve(tmp_path) as (process, url, said), httpx.Client(base_url=url, timeout=BOUND) as http:
        key = (tmp_path / "admin.key").read_text().strip()
        assert key not in "".join(said) and any(str(tmp_path / "admin.key") in line for line in said)
        assert stat.S_IMODE((tmp_path / "admin.key").stat().st_mode) == 0o600
        headers = {"Authorization": f"Bearer {key}"}
        wait_ready(http)
        assert http.get("/keys", headers=headers).status_code == 200
        assert "recourse_batch_records" in http.get("/metrics", headers=headers).text, "the explainer's own"
        code = "from app.cli import main; main()"
        environment = {**os.environ, "RECOURSE_VAR_DIR": str(tmp_path)}
        command = [sys.executable, "-c", code, "tenant", "add", "second"]
        added = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=BOUND)
        second = {"Authorization": f"Bearer {added.stdout.strip()}"}
        assert len(http.get("/keys", headers=second).json()["items"]) == 1, "its own key only"
        assert headers_taken(url) < 2**25, "headers without end are cut off"
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, *tmp_path.rglob("*"))}
        assert {path: mode for path, mode in modes.items() if mode & 0o077} == {}, "for the owner only"
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez")


def test_a_shared_database_is_not_migrated_by_the_way(empty_database_url: str, tmp_path: Path) -> None:
    """Several processes start against it; SQLite is our own, and comes to be as it should."""
    database = open_database(empty_database_url)
    settings = Settings(var_dir=tmp_path)
    if empty_database_url.startswith("sqlite"):
        prepare(settings, database)
        assert (tmp_path / "admin.key").exists()
    else:
        with pytest.raises(ConfigError, match="run `recourse migrate`"):
            prepare(settings, database)
    database.close()


def test_the_api_imports_no_torch() -> None:
    """The plain install has none; what needs it is imported when it is opened."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'sklearn', 'xgboost', 'catboost', 'scipy')))\n"
        "import app.main, app.commands.serve, app.explain.remote, app.train.queue"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=BOUND)
    assert done.returncode == 0, done.stderr


def test_a_signal_before_it_serves_ends_it_too(tmp_path: Path) -> None:
    """It comes when the parts are half open: what waits for uvicorn must not be forgotten."""
    code = (
        "import os, signal\nimport app.commands.serve as command\nprepare = command.prepare\n"
        "command.prepare = lambda *parts: (prepare(*parts), os.kill(os.getpid(), signal.SIGTERM))\n"
        "command.serve('127.0.0.1', 0)"
    )
    environment = {**os.environ, "RECOURSE_VAR_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=BOUND)
    assert done.returncode == 0, done.stderr
