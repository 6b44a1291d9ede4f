"""What version 0.1.0 left behind is taken over: its database, its keys, its models, its answers, its open job.

tests/system/baseline holds the folder `var/` of a small service of that version, killed with a training just begun,
once with SQLite and once with Postgres (as an SQL dump), and what it had answered.
"""

import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from tests.patience import BOUND, wait_until
from tests.servers.postgres import new_database, postgres_url
from tests.servers.running import free_port, process_of, service_environment, wait_ready

BASELINE = Path(__file__).parent / "baseline"
RECOURSE = (sys.executable, "-c", "from app.cli import main; main()")


@pytest.fixture(params=["embedded", "postgres"])
def left_behind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """The folder of the old service, and the settings that point to it."""
    mode: str = request.param
    with tarfile.open(BASELINE / f"{mode}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    settings = {
        "RECOURSE_VAR_DIR": str(tmp_path / "var"),
        "RECOURSE_BLACKBOX_HOSTS": "models.lender.test",
        # The keys of requests were used on the day when the folder was filled.
        "RECOURSE_IDEMPOTENCY_HOURS": "876000",
    }
    if mode == "embedded":
        yield tmp_path, settings
        return
    with postgres_url() as server, new_database(server, f"recourse_{uuid4().hex}") as url:
        restore(url, tmp_path / "dump.sql")
        yield tmp_path, {**settings, "RECOURSE_DATABASE_URL": url}


def restore(url: str, dump: Path) -> None:
    """The dump without psql's own commands, which only psql understands."""
    statements = re.sub(r"(?m)^\\.*$", "", dump.read_text())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statements.encode())


def recourse(settings: Mapping[str, str], *arguments: str) -> None:
    subprocess.run([*RECOURSE, *arguments], env=service_environment(settings), check=True, timeout=BOUND)


@contextmanager
def serving(settings: Mapping[str, str], key: str) -> Iterator[httpx.Client]:
    port = free_port()
    with process_of([*RECOURSE, "serve", "--port", str(port)], settings) as api:
        wait_ready(port, api)
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=BOUND) as http:
            yield http


def test_the_new_version_goes_on_where_the_old_one_was_killed(left_behind: tuple[Path, dict[str, str]]) -> None:
    folder, settings = left_behind
    before = json.loads((folder / "expected.json").read_text())
    recourse(settings, "migrate")
    with serving(settings, (folder / "var" / "admin.key").read_text().strip()) as http:
        for shown in before["shown"]:
            assert http.get(f"/explanations/{shown['id']}").json() == shown
        for number, (asked, answered) in enumerate(zip(before["asks"], before["answers"], strict=True)):
            again = http.post("/explain", json=asked, headers={"Idempotency-Key": f"explain-{number}"})
            assert (again.json(), again.headers["Idempotent-Replayed"]) == (answered, "true")
            fresh = http.post("/explain", json=asked).json()
            assert [outcome(one) for one in fresh["explanations"]] == [outcome(one) for one in answered["explanations"]]
        verified = http.post(f"/explanations/{before['shown'][0]['id']}/verify").json()
        assert (verified["holds"], verified["charged"]) == (before["verified"]["holds"], 0)
        assert [one["name"] for one in http.get("/ensembles").json()["items"]].count("remote") == 1
        old_lines = {line["id"]: line for line in before["ledger"]["items"]}
        lines = {line["id"]: line for line in http.get("/budgets/loans/ledger?limit=500").json()["items"]}
        assert all(lines[number].items() >= line.items() for number, line in old_lines.items())
        assert {lines[number]["mac"] for number in old_lines} == {None}, "an anchor covers them"
        wait_until(lambda: http.get(f"/jobs/{before['queued']}").json()["state"] not in ("queued", "running"))
        job = http.get(f"/jobs/{before['queued']}").json()
        assert (job["state"], job["error"]) == ("done", None)
        assert http.get("/models/later").json()["active_version"] == 1
    with serving(settings, before["client_key"]) as http:
        assert http.post("/explain", json=before["asks"][0]).status_code == httpx.codes.OK
    recourse(settings, "budget", "check")


def outcome(explanation: Mapping[str, Any]) -> str:
    """How a record ended. An engine that has become better may find other ways, and verify what was only expected."""
    status: str = explanation["status"]
    return "answered" if status in ("robust", "valid") else status
