"""What an operator runs when something is wrong: one sentence that says what to do, and an exit code that is not 0."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.auth.keyring import open_keyring
from app.auth.principals import KeyCache
from app.db.engine import open_database
from app.db.tables import Role
from app.errors import AuthenticationError
from app.settings import Settings, unknown_names
from tests.patience import wait_until
from tests.servers.command_line import recourse

COMMANDS = (
    ("serve", "--port", "0"),
    ("migrate",),
    ("budget", "check"),
    ("budget", "show", "default", "loans"),
    ("tenant", "add", "second"),
    ("tenant", "list"),
    ("key", "list", "default"),
)
NOBODY = "postgresql://recourse:hunter2@127.0.0.1:1/recourse"


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A folder of its own, and SQLite in it."""
    for name in os.environ:
        if name.startswith("RECOURSE_") and not name.startswith("RECOURSE_TEST"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RECOURSE_VAR_DIR", str(tmp_path / "var"))
    yield Settings()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_database_that_is_away_is_one_sentence(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOURSE_DATABASE_URL", NOBODY)
    said = recourse(*command)
    assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1), said
    assert "127.0.0.1:1/recourse cannot be used" in said.err and "correct RECOURSE_DATABASE_URL" in said.err
    assert "hunter2" not in said.err


@pytest.mark.parametrize("command", COMMANDS[2:], ids=" ".join)
def test_a_database_without_tables_is_one_sentence(command: tuple[str, ...]) -> None:
    said = recourse(*command)
    assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1), said
    assert "run `recourse migrate`" in said.err


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("RECOURSE_DEADLINE_MS", "abc", "RECOURSE_DEADLINE_MS is 'abc'"),
        ("RECOURSE_EXPLAIN_BATCH", "0", "RECOURSE_EXPLAIN_BATCH is '0'"),
        ("RECOURSE_DATABASE_URL", "nonsense", "RECOURSE_DATABASE_URL is not the URL of a database"),
        ("RECOURSE_REDIS_URL", "nonsense", "RECOURSE_REDIS_URL is not the URL of a Redis"),
        ("RECOURSE_EXPLAINER_URL", "worker:8100", "RECOURSE_EXPLAINER_URL holds 'worker:8100'"),
        ("RECOURSE_KEY_SECRET", "short", "RECOURSE_KEY_SECRET has 5 characters"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(
    name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    if name == "RECOURSE_REDIS_URL":
        monkeypatch.setenv("RECOURSE_EXPLAINER_URL", "http://127.0.0.1:1")
    said = recourse("serve", "--port", "0")
    lines = [line for line in said.err.splitlines() if "The first admin key" not in line]
    assert (said.code, said.out, len(lines)) == (2, "", 1), said
    assert told in lines[0]


def test_a_misspelt_setting_is_told_with_the_nearest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOURSE_DATABASE_ULR", NOBODY)
    said = recourse("migrate")
    assert said.code == 0 and said.out.startswith("empty -> ")
    assert said.err == "RECOURSE_DATABASE_ULR is no setting and is ignored: is RECOURSE_DATABASE_URL meant?\n"
    fine = (
        "RECOURSE_TEST_PATIENCE",
        "RECOURSE_REQUIRE_BROWSER",
        "RECOURSE_KEY",
        "RECOURSE_VAR_DIR",
        "recourse_var_dir",
    )
    kubernetes = ("RECOURSE_SERVICE_HOST", "RECOURSE_SERVICE_PORT_HTTP", "RECOURSE_PORT", "RECOURSE_PORT_80_TCP_ADDR")
    assert unknown_names([*fine, *kubernetes, "PATH", "RECOURSEFUL"]) == []
    assert unknown_names(["RECOURSE_ZZZ"]) == ["RECOURSE_ZZZ is no setting and is ignored: take it out"]


def role_of(settings: Settings, key: str) -> Role:
    database = open_database(settings.database)
    try:
        return KeyCache(database, open_keyring(settings, database), 0.0).look_up(key.strip()).role
    finally:
        database.close()


def test_keys_are_made_listed_rotated_and_revoked(settings: Settings) -> None:
    recourse("migrate")
    assert recourse("tenant", "add", "bank").out.startswith("rk_")
    made = recourse("key", "make", "bank", "nightly training", "--role", "analyst", "--days", "30").out
    assert role_of(settings, made) is Role.ANALYST
    listed = recourse("key", "list", "bank").out.splitlines()
    (line,) = [line for line in listed if "nightly training" in line]
    assert made[:11] in line and " analyst " in line and " until " in line and "never used" in line
    new = recourse("key", "rotate", "bank", made[:11]).out
    assert role_of(settings, new) is role_of(settings, made) is Role.ANALYST
    assert recourse("key", "revoke", "bank", new[:11]).out == f"{new[:11]} (nightly training) is revoked\n"
    with pytest.raises(AuthenticationError, match="unknown or revoked"):
        role_of(settings, new)
    for wrong in (("revoke", "bank", "rk_nothing"), ("revoke", "nobody", made[:11]), ("rotate", "bank", new[:11])):
        said = recourse("key", *wrong)
        assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1), said


def test_a_tenant_is_listed_disabled_and_enabled(settings: Settings) -> None:
    recourse("migrate")
    key = recourse("tenant", "add", "bank").out
    recourse("tenant", "disable", "bank")
    with pytest.raises(AuthenticationError, match="disabled this lender"):
        role_of(settings, key)
    assert "bank: since " in recourse("tenant", "list").out and "; disabled " in recourse("tenant", "list").out
    recourse("tenant", "enable", "bank")
    assert role_of(settings, key) is Role.ADMIN
    assert recourse("tenant", "disable", "nobody").code == 2


def test_a_lost_secret_is_refused_until_the_loss_is_accepted(settings: Settings) -> None:
    recourse("migrate")
    recourse("tenant", "add", "bank")
    (settings.var_dir / "secret.key").unlink()
    for command in (("serve", "--port", "0"), ("tenant", "add", "other")):
        said = recourse(*command)
        assert said.code == 2 and "secret.key is missing" in said.err and "accept-new-secret" in said.err
    assert "1 keys are revoked" in recourse("key", "accept-new-secret").out
    assert role_of(settings, recourse("key", "make", "bank", "again", "--role", "admin").out) is Role.ADMIN
    assert stat.S_IMODE((settings.var_dir / "secret.key").stat().st_mode) == 0o600


@pytest.mark.slow
def test_a_worker_before_the_migration_waits_quietly(settings: Settings, tmp_path: Path) -> None:
    """It repeated tracebacks; now it says once what it waits for, and goes on by itself."""
    command, log = [sys.executable, "-m", "worker", "--only", "train"], tmp_path / "log"
    with log.open("w") as file:
        worker = subprocess.Popen(command, stderr=file)
    try:
        wait_until(lambda: "run `recourse migrate`" in log.read_text())
        time.sleep(3.0)  # It looks again meanwhile.
        assert log.read_text().count("\n") == 1, log.read_text()
        recourse("migrate")
        wait_until(lambda: "trainer ready" in log.read_text() or worker.poll() is not None)
        assert "trainer ready" in log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        worker.kill()
        worker.wait()
