"""The databases of the app's tests."""

from tests.app.conftest import (
    customer,
    database,
    database_url,
    postgres_server,
    postgres_template,
    sqlite_template,
)

__all__ = ["customer", "database", "database_url", "postgres_server", "postgres_template", "sqlite_template"]
