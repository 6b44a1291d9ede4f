"""Databases: each test gets a new one with the real migrations, once on SQLite and once on Postgres."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from app.auth import queries
from app.db import migrations
from app.db.engine import Database, open_database
from app.db.tables import utc_now
from app.ensembles import directory
from app.ledger.balance import Balance, Correction
from app.ledger.ledger import Ledger
from tests.app.ledger import CHAIN_KEY
from tests.servers.postgres import new_database, postgres_url


@dataclass(frozen=True)
class Customer:
    """A tenant with one ensemble."""

    tenant_id: int
    ensemble_id: int


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with postgres_url() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """The name of a migrated database that others are copied from."""
    name = f"recourse_template_{uuid4().hex}"
    with new_database(postgres_server, name) as url:
        _migrate(url)
        yield name


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file that others are copied from."""
    path = tmp_path_factory.mktemp("template") / "recourse.db"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a migrated database of this test's own."""
    if request.param == "sqlite":
        path = tmp_path / "recourse.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
    else:
        server, template = (request.getfixturevalue(name) for name in ("postgres_server", "postgres_template"))
        with new_database(server, f"recourse_{uuid4().hex}", template) as url:
            yield url


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database of this test's own that no migration has touched."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
    else:
        with new_database(request.getfixturevalue("postgres_server"), f"recourse_{uuid4().hex}") as url:
            yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = open_database(database_url)
    yield database
    database.close()


@pytest.fixture
def ledger(database: Database) -> Ledger:
    return Ledger(database, CHAIN_KEY)


@pytest.fixture
def customer(database: Database) -> Customer:
    return new_customer(database)


def correct(database: Database, ledger: Ledger, customer: Customer, count: int) -> Balance:
    """A correction in a transaction of its own."""
    wanted = Correction(count, "for once", "tests")
    with database.writing() as connection:
        return ledger.correct(connection, customer.tenant_id, customer.ensemble_id, wanted)


def new_customer(database: Database) -> Customer:
    """A tenant and an ensemble that no other test knows."""
    name = uuid4().hex
    with database.writing() as connection:
        tenant_id = queries.add_tenant(connection, f"lender {name}", utc_now())
        return Customer(tenant_id, directory.add_ensemble(connection, tenant_id, "loans", "1", utc_now()))


def _migrate(url: str) -> None:
    database = open_database(url)
    migrations.upgrade(database)
    database.close()
