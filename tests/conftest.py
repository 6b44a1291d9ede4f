"""What every test may use: the folder of public data sets, reproducible property tests; and the marks of all tests."""

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from app.cli import WORKER_EXTRA
from tests.patience import PATIENCE

# How fast examples are drawn depends on how busy the machine is: that is no fault of the code.
settings.register_profile(
    "suite", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

SLOW = (
    "tests/system/",
    "tests/worker/",
    "tests/app/api/test_restart.py",
    "tests/app/commands/test_demo.py",
    "tests/app/commands/test_serve.py",
    "tests/app/ensembles/test_mlserver.py",
    "tests/app/ledger/test_race.py",
    "tests/benchmarks/experiments/",
    "tests/benchmarks/test_quality.py",
    "tests/benchmarks/test_speed.py",
    "tests/benchmarks/test_service.py",
    "tests/test_docs.py",
)
"""Tests of whole processes and whole runs: `make check` leaves them out, `make test` does not."""
DATABASES = ("database_url", "empty_database_url", "shared_database_url")
"""The fixtures that give a test its database, SQLite or Postgres."""
BOTH_DATABASES = ("tests/app/db/", "tests/app/ledger/", "tests/app/train/test_jobs.py", "tests/app/test_idempotency.py")
"""Here SQL differs between the databases, or races do: `make check` runs them on Postgres too, the others on SQLite."""

PLAIN = find_spec("torch") is None
NEEDS_WORKER = (
    "tests/app/commands/test_cli.py",
    "tests/app/commands/test_cli_refusals.py",
    "tests/app/commands/test_serve.py",
    "tests/app/test_problems.py::test_every_error_has_a_row",
    "tests/client/",
)
"""The plain install, as `make plain` tests it on other Pythons: tests that import the worker packages are left out, and
so are these, which run them."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """True for a test file, or a folder by its conftest.py, that imports what is not there; else undecided."""
    module = collection_path / "conftest.py" if collection_path.is_dir() else collection_path
    if not PLAIN or module.suffix != ".py" or not module.exists():
        return None
    name = ".".join(module.relative_to(Path(__file__).parents[1]).with_suffix("").parts)
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        return (error.name or "").partition(".")[0] in WORKER_EXTRA | {"lightgbm", "tabm"} or None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks that follow from a test's place and its fixtures, and a time limit that follows the machine."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if PLAIN and item.nodeid.startswith(NEEDS_WORKER):
            item.add_marker(pytest.mark.skip("needs the packages of recourse-service[worker]"))
        params = item.callspec.params if hasattr(item, "callspec") else {}
        postgres = "postgres" in (params.get(name) for name in DATABASES)
        browser = "browser" in item.fixturenames
        for name, wanted in (("postgres", postgres), ("browser", browser)):
            if wanted:
                item.add_marker(name)
        if browser or item.nodeid.startswith(SLOW) or (postgres and not item.nodeid.startswith(BOTH_DATABASES)):
            item.add_marker("slow")
        item.add_marker(pytest.mark.timeout(float(config.getini("timeout")) * PATIENCE))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder that RECOURSE_DATA names; tests of the public data sets are skipped without it."""
    folder = os.environ.get("RECOURSE_DATA")
    if not folder:
        pytest.skip("RECOURSE_DATA does not name the folder of public data sets")
    return Path(folder)
