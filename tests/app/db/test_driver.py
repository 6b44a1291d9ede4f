"""Statements past SQLAlchemy: the same values, the same errors, all or nothing, on both databases."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import bindparam, func, insert, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from app.db.driver import Prepared
from app.db.engine import Database, open_database
from app.db.tables import Tenant
from models.errors import ConfigError
from tests.app.conftest import Customer

NAMES = ("name", "created_at")
ADD = Prepared(insert(Tenant), NAMES)
NAMED = Prepared(
    select(Tenant.id).where(Tenant.name == bindparam("name"), Tenant.created_at == bindparam("created_at"))
)
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def rows_of(*names: str) -> list[dict[str, object]]:
    return [{"name": name, "created_at": NOON} for name in names]


def count(database: Database) -> int:
    with database.reading() as connection:
        return connection.execute(select(func.count()).select_from(Tenant)).scalar_one()


@pytest.mark.parametrize("names", [("a",), ("a", "b", "c")])
def test_what_is_written_reads_as_if_sqlalchemy_had_written_it(database: Database, names: tuple[str, ...]) -> None:
    with database.driving() as driver:
        driver.write(ADD, rows_of(*names))
    with database.writing() as connection:
        connection.execute(insert(Tenant), rows_of("usual"))
    with database.reading() as connection:
        found = connection.execute(select(Tenant.name, Tenant.created_at)).all()
        # As the database keeps it, without SQLAlchemy's types on the way back.
        kept = connection.execute(text("SELECT DISTINCT CAST(created_at AS TEXT) FROM tenants")).all()
    assert {(row.name, row.created_at) for row in found} == {(name, NOON) for name in (*names, "usual")}
    assert len(kept) == 1


def test_a_row_is_found_by_the_values_of_its_types(database: Database) -> None:
    with database.driving() as driver:
        driver.write(ADD, rows_of("a"))
        assert driver.finds(NAMED, {"name": "a", "created_at": NOON.astimezone(timezone(timedelta(hours=5)))})
        assert not driver.finds(NAMED, {"name": "b", "created_at": NOON})
        assert not driver.finds(NAMED, {"name": "a", "created_at": NOON + timedelta(seconds=1)})


def test_an_error_of_the_database_is_sqlalchemys_and_nothing_is_kept(database: Database) -> None:
    with pytest.raises(IntegrityError), database.driving() as driver:
        driver.write(ADD, rows_of("a", "b", "a"))
    assert count(database) == 0
    with database.driving() as driver:
        driver.write(ADD, rows_of("a"))
    assert count(database) == 1


def test_an_error_in_between_keeps_nothing_and_frees_the_database(database: Database) -> None:
    with pytest.raises(ConfigError), database.driving() as driver:
        driver.write(ADD, rows_of("a"))
        raise ConfigError("something else")
    with database.driving() as driver:
        driver.write(ADD, rows_of("b"))
    assert count(database) == 1


def test_a_connection_that_the_server_ends_is_an_error_once(database: Database, customer: Customer) -> None:
    if database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no server")
    end = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    other = open_database(database.engine.url.render_as_string(hide_password=False))
    with pytest.raises(OperationalError), database.driving() as driver:
        driver.write(ADD, rows_of("a"))
        with other.writing() as connection:
            connection.execute(end)
        driver.write(ADD, rows_of("b"))
    with database.driving() as driver:
        driver.write(ADD, rows_of("c"))
    other.close()
    assert count(database) == 2


def test_a_server_that_is_away_is_an_operational_error() -> None:
    away = open_database("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(OperationalError), away.driving():
        pytest.fail("there is no connection")
    away.close()
