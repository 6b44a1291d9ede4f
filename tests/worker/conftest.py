"""The databases of the app's tests, and a service with one job's tenant."""

from pathlib import Path

import pytest

from app.db.engine import Database
from tests.app.conftest import (
    Customer,
    customer,
    database,
    database_url,
    postgres_server,
    postgres_template,
    sqlite_template,
)
from tests.servers.worker import Site, make_site

__all__ = ["customer", "database", "database_url", "postgres_server", "postgres_template", "sqlite_template"]


@pytest.fixture
def site(tmp_path: Path, database: Database, database_url: str, customer: Customer) -> Site:
    return make_site(tmp_path, database, database_url, customer)
