"""The migrations give the tables, up and down, and lose nothing that they need not lose."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, bindparam, inspect, text
from sqlalchemy.exc import DBAPIError

from app.db import migrations
from app.db.engine import Database, open_database
from app.db.tables import ApiKey, Tables, utc_now
from app.ensembles import bought
from app.ensembles.bought import AnswerOwner
from app.ledger.audit import check_ledger
from app.ledger.chain_check import begin_chains
from app.ledger.ledger import Ledger
from app.train import jobs
from models.errors import ConfigError
from tests.app.conftest import Customer, new_customer
from tests.app.ledger import CHAIN_KEY


def test_migrations_equal_the_tables(database: Database) -> None:
    assert migrations.differences(database) == []


def test_migrations_have_every_check_of_the_tables(database: Database) -> None:
    """Alembic does not compare CHECK constraints, and ours are the last line of defence."""
    inspector = inspect(database.engine)
    for table in Tables.metadata.sorted_tables:
        wanted = {c.name for c in table.constraints if isinstance(c, CheckConstraint)}
        assert {check["name"] for check in inspector.get_check_constraints(table.name)} == wanted, table.name


def test_one_linear_history() -> None:
    scripts = ScriptDirectory(migrations.scripts())
    assert len(scripts.get_heads()) == 1
    assert all(not script.is_branch_point and not script.is_merge_point for script in scripts.walk_revisions())


def test_upgrade_and_downgrade_on_data(empty_database_url: str) -> None:
    database = open_database(empty_database_url)
    migrations.upgrade(database)
    customer = new_customer(database)
    ledger = Ledger(database, CHAIN_KEY)
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, 10)
    reservation = ledger.reserve(customer.tenant_id, customer.ensemble_id, 4)
    ledger.dispatch(reservation, 3)

    migrations.downgrade(database, "0001")
    migrations.upgrade(database)
    owner = AnswerOwner(customer.tenant_id, customer.ensemble_id, "1")
    with database.writing() as connection:
        bought.keep_bought(connection, owner, {b"k" * 32: (b"p", 1)}, utc_now())
    migrations.downgrade(database, "0001")
    migrations.upgrade(database)

    with database.reading() as connection:
        assert bought.find_bought(connection, owner, [b"k" * 32]) == {}
    assert begin_chains(database, CHAIN_KEY) == 1
    assert ledger.settle(reservation).dispatched == 3
    assert ledger.balance(customer.tenant_id, customer.ensemble_id).used == 3
    assert check_ledger(database, CHAIN_KEY) == []

    migrations.downgrade(database, "base")
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    migrations.upgrade(database)
    assert migrations.differences(database) == []
    database.close()


def test_client_keys_that_may_have_trained_become_analysts(empty_database_url: str) -> None:
    """0005: those that work and are older than a data set or a job of their tenant; the rest stay as they are."""
    database = open_database(empty_database_url)
    migrations.upgrade(database, "0004")
    trained, asked = (new_customer(database).tenant_id for _ in range(2))
    before, now = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    after = datetime(2026, 3, 1, tzinfo=UTC)
    rows = {
        "trains": (trained, "client", before, None),
        "viewer": (trained, "viewer", before, None),
        "admin": (trained, "admin", before, None),
        "revoked": (trained, "client", before, now),
        "younger": (trained, "client", after, None),
        "of a tenant without trainings": (asked, "client", before, None),
    }
    columns = {name: ApiKey.__table__.c[name].type for name in ("id", "created_at", "revoked_at")}
    add = text(
        "INSERT INTO api_keys (id, tenant_id, name, role, prefix, digest, created_at, revoked_at) "
        "VALUES (:id, :tenant_id, :name, :role, 'p', :name, :created_at, :revoked_at)"
    ).bindparams(*(bindparam(name, type_=kind) for name, kind in columns.items()))
    with database.writing() as connection:
        jobs.add_job(connection, trained, uuid4(), "loans", {}, now)
        for name, (tenant_id, role, made, revoked) in rows.items():
            values = {"id": uuid4(), "tenant_id": tenant_id, "name": name, "role": role}
            connection.execute(add, values | {"created_at": made, "revoked_at": revoked})
    migrations.upgrade(database, "0005")
    with database.reading() as connection:
        roles = {row.name: row.role for row in connection.execute(text("SELECT name, role FROM api_keys"))}
    assert roles == {name: role for name, (_, role, *_) in rows.items()} | {"trains": "analyst"}
    migrations.downgrade(database, "0004")
    database.close()


@pytest.mark.parametrize("change", ["UPDATE ledger_entries SET used = used + 1", "DELETE FROM ledger_entries"])
def test_the_ledger_is_append_only(database: Database, customer: Customer, change: str) -> None:
    Ledger(database, CHAIN_KEY).set_limit(customer.tenant_id, customer.ensemble_id, 10)
    with pytest.raises(DBAPIError, match="append-only"), database.writing() as connection:
        connection.execute(text(change))


def test_a_counter_cannot_pass_its_ceiling(database: Database, customer: Customer) -> None:
    """Behind the guarded UPDATE stands the database itself."""
    Ledger(database, CHAIN_KEY).set_limit(customer.tenant_id, customer.ensemble_id, 10)
    with pytest.raises(DBAPIError, match="within_ceiling"), database.writing() as connection:
        connection.execute(text("UPDATE accounts SET reserved = 11"))


def test_without_its_scripts_nothing_is_migrated(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(migrations, "CHECKOUT", tmp_path / "migrations")
    database = open_database(empty_database_url)
    with pytest.raises(ConfigError, match="install the package again"):
        migrations.upgrade(database)
    database.close()


def test_only_two_databases_and_no_memory() -> None:
    with pytest.raises(ConfigError, match="mysql"):
        open_database("mysql://localhost/recourse")
    with pytest.raises(ConfigError, match="memory"):
        open_database("sqlite://")
