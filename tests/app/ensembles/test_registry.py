"""Remote ensembles are kept while their row is the same, and leave nothing open when they are forgotten."""

from pathlib import Path

import pytest

from app.auth.keyring import open_keyring
from app.db.engine import Database
from app.ensembles import directory
from app.ensembles.directory import EnsembleDirectory
from app.ensembles.meter import EnsembleMeter
from app.ledger.ledger import Ledger
from app.settings import Settings
from models.data.schema import Feature, FeatureKind, Schema
from tests.app.conftest import Customer

SCHEMA = Schema((Feature("income", FeatureKind.NUMERIC, 0.0, 9.0, 0.5),), "decision", ("refused", "approved"))


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_an_ensemble_is_kept_until_its_row_changes(
    database: Database, ledger: Ledger, customer: Customer, tmp_path: Path
) -> None:
    """So its breakers remember who failed."""
    settings = Settings(var_dir=tmp_path, blackbox_hosts=("lender.example",))
    registry = EnsembleDirectory(settings, database, ledger, open_keyring(settings, database))
    owner = customer.tenant_id, customer.ensemble_id

    def register(version: str) -> EnsembleMeter:
        endpoint = {"url": "https://lender.example", "model": "m", "members": ["a"], "outputs": ["a"]}
        with database.writing() as connection:
            described = [endpoint | {"layout": "columns", "seconds": 1.0}]
            directory.describe_remote(connection, *owner, version, SCHEMA.to_json(), described, None)
        return registry.remote(*owner, SCHEMA)

    first = register("1")
    assert registry.remote(*owner, SCHEMA) is first
    assert register("2") is not first
    registry.close()
