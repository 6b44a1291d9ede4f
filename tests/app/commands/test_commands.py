"""`recourse migrate` and `recourse budget`, as processes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from app.auth import queries
from app.auth.keyring import open_keyring
from app.commands.budget import app
from app.db.engine import Database
from app.db.migrations import newest_revision
from app.db.tables import utc_now
from app.ensembles import directory
from app.ledger.chain import ChainKey
from app.ledger.ledger import Ledger
from app.settings import Settings
from tests.patience import BOUND

RECOURSE = (sys.executable, "-c", "from app.cli import main; main()")


def run(url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [*RECOURSE, *arguments]
    environment = os.environ | {"RECOURSE_DATABASE_URL": url}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND, check=False)


def test_migrate_from_nothing_and_again(empty_database_url: str) -> None:
    first, second = (run(empty_database_url, "migrate") for _ in range(2))
    assert (first.returncode, first.stdout) == (0, f"empty -> {newest_revision()}\n"), first.stderr
    assert (second.returncode, second.stdout) == (0, f"{newest_revision()} -> {newest_revision()}\n"), second.stderr


def test_processes_that_migrate_at_once_wait_for_each_other(empty_database_url: str) -> None:
    command = [*RECOURSE, "migrate"]
    environment = os.environ | {"RECOURSE_DATABASE_URL": empty_database_url}
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [process.wait(BOUND) for process in processes] == [0, 0, 0]


@pytest.fixture
def lender(database: Database) -> Ledger:
    with database.writing() as connection:
        tenant_id = queries.add_tenant(connection, "lender", utc_now())
        directory.add_ensemble(connection, tenant_id, "loans", "1", utc_now())
    return Ledger(database, ChainKey(open_keyring(Settings(), database).ledger_secret))


@pytest.fixture
def budget(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs `recourse budget` in this process; its output."""
    monkeypatch.setenv("RECOURSE_DATABASE_URL", database_url)

    def invoke(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    return invoke


def test_set_show_export_and_expire(lender: Ledger, budget: Callable[..., str]) -> None:
    budget("set", "lender", "loans", "10", "--period", "month")
    lender.dispatch(lender.reserve(1, 1, 4), 3)
    assert "6 of 10 queries left in period 20" in budget("show", "lender", "loans")
    assert budget("export", "lender", "loans").count("\n") == 5
    assert budget("expire") == "0 reservations expired: 0 queries charged, 0 released\n"
    assert budget("check").endswith("The ledger's sums equal the rows, and its chains hold.\n")


def test_the_check_fails_when_the_sums_differ(lender: Ledger, database: Database, database_url: str) -> None:
    lender.set_limit(1, 1, 10)
    with database.writing() as connection:
        connection.execute(text("UPDATE accounts SET used = 1"))
    bad = run(database_url, "budget", "check")
    assert (bad.returncode, bad.stdout.count("says used 1")) == (1, 2)


def test_a_correction_and_what_was_noted(
    lender: Ledger, budget: Callable[..., str], database_url: str, tmp_path: Path
) -> None:
    lender.set_limit(1, 1, 10)
    lender.dispatch(reservation := lender.reserve(1, 1, 4), 3)
    lender.settle(reservation)
    told = budget("correct", "lender", "loans", "--queries", "-2", "--reason", "the models were down")
    assert told == "1 queries used in period always, 9 left\n"
    over = run(database_url, "budget", "correct", "lender", "loans", "--queries", "10", "--reason", "x")
    assert (over.returncode, over.stderr.count("raise the limit first")) == (2, 1)
    assert "the models were down,operator " in budget("export", "lender", "loans")
    noted = tmp_path / "noted.txt"
    noted.write_text(budget("check"))
    assert "chains hold" in budget("check", "--noted", str(noted))
    noted.write_text(noted.read_text().replace("number 6", "number 7"))
    gone = run(database_url, "budget", "check", "--noted", str(noted))
    assert (gone.returncode, gone.stdout.count("an older state was put back")) == (1, 1)
    assert "1 accounts have a new chain" in budget("begin-chain", "lender", "loans", "--reason", "an audit ended")
    assert "chains hold" in budget("check")


def test_endpoints_are_bound_limited_listed_and_let_go(
    lender: Ledger, database: Database, database_url: str, budget: Callable[..., str]
) -> None:
    def endpoint(*arguments: str) -> str:
        done = run(database_url, "endpoint", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with database.writing() as connection:
        other = queries.add_tenant(connection, "other", utc_now())
        ensemble_id = directory.add_ensemble(connection, other, "scores", "1", utc_now())
        described = [{"url": "https://gw.example/a", "model": "m", "members": ["m"], "outputs": ["m"]}]
        directory.describe_remote(connection, other, ensemble_id, "1", {"classes": ["no", "yes"]}, described, None)
    told = endpoint("bind", "gateway", "https://gw.example/a/", "lender")
    assert told == "gateway is bound to lender\nother can no longer ask its ensemble scores\n"
    assert endpoint("list") == "gateway: https://gw.example:443/a for lender; no limit\n"
    assert "20 of 20 queries left" in endpoint("limit", "gateway", "20", "--period", "day")
    assert "; 20 of 20 queries left in period 20" in endpoint("list")
    assert "20 of 20 queries left" in budget("show", "@operator", "gateway")
    assert (
        endpoint("bind", "gateway", "https://gw.example/a", "lender", "other") == "gateway is bound to lender, other\n"
    )
    assert "@operator" not in run(database_url, "tenant", "list").stdout
    for wrong, said in (
        (("endpoint", "limit", "nothing", "1"), "no endpoint is bound as 'nothing'"),
        (("endpoint", "bind", "x", "https://gw.example/a", "lender"), "bound under another name"),
        (("endpoint", "bind", "x", "gw.example", "lender"), "use https"),
        (("endpoint", "bind", "x", "https://gw.example/a", "nobody"), "there is no tenant 'nobody'"),
        (("endpoint", "bind", "x", "https://gw.example/a", "@operator"), "asks no endpoint"),
        (("key", "make", "@operator", "x"), "there is no tenant '@operator'"),
        (("tenant", "add", "@operator"), "the operator's own name"),
    ):
        refused = run(database_url, *wrong)
        assert (refused.returncode, refused.stderr.count("\n"), said in refused.stderr) == (2, 1, True), refused.stderr
    assert endpoint("unbind", "gateway") == "gateway is not bound any more\n"
    assert endpoint("list") == ""


@pytest.mark.usefixtures("lender")
def test_errors_are_one_line(database_url: str) -> None:
    unknown = run(database_url, "budget", "show", "nobody", "loans")
    assert (unknown.returncode, unknown.stderr) == (2, "there is no tenant 'nobody': check the name\n")
