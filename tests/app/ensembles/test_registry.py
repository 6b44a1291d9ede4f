"""Remote ensembles stay open, but not for ever."""

import threading
from pathlib import Path

import pytest

from app.auth.keyring import open_keyring
from app.db.engine import Database
from app.ensembles import directory
from app.ensembles.directory import GRACE_SECONDS, EnsembleDirectory
from app.ensembles.meter import EnsembleMeter
from app.ledger.ledger import Ledger
from app.settings import Settings
from models.data.schema import Feature, FeatureKind, Schema
from tests.app.conftest import Customer

SCHEMA = Schema((Feature("income", FeatureKind.NUMERIC, 0.0, 9.0, 0.5),), "decision", ("refused", "approved"))


def open_loops() -> int:
    return sum(thread.name == "remote black box" for thread in threading.enumerate())


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_was_replaced_is_closed_when_nobody_can_be_using_it(
    database: Database, ledger: Ledger, customer: Customer, tmp_path: Path
) -> None:
    settings = Settings(var_dir=tmp_path, blackbox_hosts=("lender.example",), max_deadline_ms=1_000)
    now, before = [0.0], open_loops()
    registry = EnsembleDirectory(settings, database, ledger, open_keyring(settings, database), clock=lambda: now[0])
    owner = customer.tenant_id, customer.ensemble_id

    def register(version: str) -> EnsembleMeter:
        endpoint = {"url": "https://lender.example", "model": "m", "members": ["a"], "outputs": ["a"]}
        with database.writing() as connection:
            described = [endpoint | {"layout": "columns", "seconds": 1.0}]
            directory.describe_remote(connection, *owner, version, SCHEMA.to_json(), described, None)
        return registry.remote(*owner, SCHEMA)

    first = register("1")
    assert registry.remote(*owner, SCHEMA) is first, "it stays open"
    register("2")
    assert open_loops() - before == 2, "a request may still be using the first"
    for number in range(3, 9):
        now[0] += GRACE_SECONDS
        register(str(number))
    assert open_loops() - before <= 3
    registry.close()
    assert open_loops() == before
