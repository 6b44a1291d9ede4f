"""A training is refused at once where that needs no training."""

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from app.artifacts import open_store
from app.datasets import service
from app.datasets.service import NewDataset
from app.db.engine import Database
from app.db.tables import AnyRow, utc_now
from app.ensembles import directory
from app.errors import ConflictError, NotFoundError, OverloadedError, UnknownBudgetError
from app.ledger.ledger import Ledger
from app.settings import Settings, environment_of
from app.train import service as train_service
from app.train.request import TrainRequest, make_plan
from app.train.service import cancel
from models.errors import ConfigError, DataError, QueryLimitError, SchemaError
from tests.app.conftest import Customer
from tests.app.ledger import CHAIN_KEY
from tests.servers.worker import changed

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def submit(
    database: Database,
    tenant_id: int,
    request: TrainRequest,
    settings: Settings | None = None,
    ledger: Ledger | None = None,
) -> AnyRow:
    """As a request does it."""
    chosen = settings or Settings()
    train_service.check_budget(database, ledger or Ledger(database, CHAIN_KEY), chosen, tenant_id, request)
    with database.writing() as connection:
        return train_service.submit(connection, tenant_id, uuid4(), request, chosen.max_queued_jobs)


@pytest.fixture
def request_(database: Database, customer: Customer) -> TrainRequest:
    dataset_id = uuid4()
    schema = {"features": [{"name": "age"}, {"name": "income"}]}
    with database.writing() as connection:
        described = NewDataset("loans", "datasets/x", "0" * 64, 9, "approved", schema, None)
        service.add_dataset(connection, customer.tenant_id, dataset_id, described, utc_now())
    return TrainRequest(model="model", dataset_id=dataset_id)


def test_a_job_is_submitted_and_cancelled(
    database: Database, customer: Customer, request_: TrainRequest, tmp_path: Path
) -> None:
    store = open_store(Settings(var_dir=tmp_path))
    settings = Settings(max_queued_jobs=1)
    row = submit(database, customer.tenant_id, request_, settings)
    assert row.state == "queued"
    assert TrainRequest.of_job(row.request, row.model_name) == request_
    with pytest.raises(OverloadedError, match="1 of 1 training jobs are unfinished"):
        submit(database, customer.tenant_id, request_, settings)
    assert cancel(database, Ledger(database, CHAIN_KEY), store, customer.tenant_id, row.id).state == "cancelled"
    with pytest.raises(ConflictError, match="is cancelled already"):
        cancel(database, Ledger(database, CHAIN_KEY), store, customer.tenant_id, row.id)
    with pytest.raises(NotFoundError, match="there is no job"):
        cancel(database, Ledger(database, CHAIN_KEY), store, customer.tenant_id + 1, row.id)


def test_what_is_refused_at_once(database: Database, customer: Customer, request_: TrainRequest) -> None:
    with database.writing() as connection:
        ensemble_id = directory.add_ensemble(connection, customer.tenant_id, "scores", "1", utc_now())
        directory.describe_remote(connection, customer.tenant_id, ensemble_id, "1", {"classes": []}, [], None)

    def ask(model: str, request: TrainRequest, tenant_id: int = customer.tenant_id) -> None:
        submit(database, tenant_id, changed(request, model=model))

    with pytest.raises(NotFoundError, match="no data set"):
        ask("model", changed(request_, dataset_id=uuid4()))
    with pytest.raises(NotFoundError, match="no data set"):
        ask("model", request_, customer.tenant_id + 1)
    with pytest.raises(DataError, match="no label column 'nobody'; the columns are age, income, approved"):
        ask("model", changed(request_, label="nobody"))
    with pytest.raises(NotFoundError, match="no registered ensemble 'loans'"):
        ask("model", changed(request_, ensemble="loans"))
    with pytest.raises(ConflictError, match="'scores' is a registered ensemble"):
        ask("scores", request_)
    with pytest.raises(ConfigError, match="top_features is 3, but there are only 2 features"):
        ask("model", changed(request_, top_features=3))
    with pytest.raises(SchemaError, match="name 'shoes', which is no feature; the features are age, income"):
        ask("model", changed(request_, overrides={"features": {"shoes": {"direction": "up"}}}))
    with pytest.raises(UnknownBudgetError, match="set a limit first"):
        ask("model", changed(request_, ensemble="scores"))
    Ledger(database, CHAIN_KEY).set_limit(customer.tenant_id, ensemble_id, 10_000)
    ask("model", changed(request_, ensemble="scores"))
    ask("loans", changed(request_, label="income"))


def test_labels_that_are_not_the_ensemble_s_classes_are_refused_at_once(
    database: Database, customer: Customer, request_: TrainRequest
) -> None:
    """In any order: which one is right, the training sees."""
    counted = NewDataset("applications", "datasets/y", "0" * 64, 9, "decision", {}, {"yes": 5, "no": 4})
    dataset_id, tenant_id = uuid4(), customer.tenant_id
    with database.writing() as connection:
        service.add_dataset(connection, tenant_id, dataset_id, counted, utc_now())
        for name, classes in {"same": ["yes", "no"], "turned": ["no", "yes"], "other": ["0", "1"]}.items():
            ensemble_id = directory.add_ensemble(connection, tenant_id, name, "1", utc_now())
            directory.describe_remote(connection, tenant_id, ensemble_id, "1", {"classes": classes}, [], None)
    wanted = changed(request_, dataset_id=dataset_id)
    for name in ("same", "turned", "other"):
        ensemble = database.read(directory.find_ensemble, tenant_id, name)
        assert ensemble is not None
        Ledger(database, CHAIN_KEY).set_limit(tenant_id, ensemble.id, 10_000)
    for name in ("same", "turned"):
        assert submit(database, tenant_id, changed(wanted, ensemble=name)).state == "queued"
    with pytest.raises(
        ConflictError, match=r"'applications' are .*yes.*, the classes of ensemble 'other' 0, 1: register"
    ):
        submit(database, tenant_id, changed(wanted, ensemble="other"))
    assert submit(database, tenant_id, changed(wanted, ensemble="other", label="decision2")).state == "queued"


def test_a_training_over_the_budget_is_refused_at_once_and_one_that_fits_is_not(
    database: Database, customer: Customer, request_: TrainRequest
) -> None:
    """Registered or trained here; the comparison with the oracle is left out where there is no room for it."""
    ledger = Ledger(database, CHAIN_KEY)
    least = make_plan(changed(request_, oracle_records=0), "cpu").total

    def ask(request: TrainRequest, default_budget: int = 10**6) -> None:
        settings = Settings(default_budget=default_budget)
        submit(database, customer.tenant_id, request, settings)

    with pytest.raises(QueryLimitError, match=f"may ask {least} queries, a new ensemble has a budget of {least - 1}"):
        ask(request_, least - 1)
    ask(request_, least)
    own = changed(request_, model="loans")
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, least + 99)
    held = ledger.reserve(customer.tenant_id, customer.ensemble_id, 100)
    with pytest.raises(
        QueryLimitError, match=rf"{least} queries were asked for, but {least - 1} of {least + 99} remain"
    ):
        ask(own)
    ask(changed(own, queries=least - 1))
    ask(changed(own, queries=0))
    ledger.settle(held)
    ask(own)


def test_what_a_crashed_owner_holds_is_no_reason_to_refuse(
    database: Database, customer: Customer, request_: TrainRequest
) -> None:
    least = make_plan(changed(request_, oracle_records=0), "cpu").total
    ledger = Ledger(database, CHAIN_KEY, lease=timedelta(seconds=-1))
    ledger.set_limit(customer.tenant_id, customer.ensemble_id, least)
    ledger.reserve(customer.tenant_id, customer.ensemble_id, least)
    assert submit(database, customer.tenant_id, changed(request_, model="loans"), ledger=ledger).state == "queued"


def test_a_data_set_without_a_label(database: Database, customer: Customer) -> None:
    dataset_id = uuid4()
    with database.writing() as connection:
        described = NewDataset("loans", "datasets/x", "0" * 64, 9, None, {"features": [{"name": "age"}]}, None)
        service.add_dataset(connection, customer.tenant_id, dataset_id, described, utc_now())
    with pytest.raises(ConfigError, match="uploaded without a label; name the label column"):
        submit(database, customer.tenant_id, TrainRequest(model="model", dataset_id=dataset_id))


def test_a_spawned_process_has_the_same_settings(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, object] = {"var_dir": tmp_path, "blackbox_hosts": ("a", "b:1"), "job_lease_seconds": 7}
    settings = Settings().model_copy(update=changes)
    for name, value in environment_of(settings).items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings
