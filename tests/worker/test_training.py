"""From tables to splits as their owner described them, and a stale trainer that publishes nothing."""

import hashlib
from pathlib import Path

import pandas as pd
import pytest
from sqlalchemy import update

from app.artifacts import open_store
from app.db.tables import DatasetRow
from app.ensembles.bought import AnswerOwner
from app.errors import ConflictError, LostLeaseError
from models.data.infer import infer_schema
from models.data.schema import FeatureKind
from models.datasets.loans import loans
from models.errors import DataError, SchemaError
from models.model import RecourseModel
from tests.app.conftest import Customer
from tests.models.tiny import TINY, make_task, random_model
from tests.servers.worker import LEASE, ROWS, Site, changed, hold
from worker.context import open_context
from worker.ensemble import registered_schema
from worker.training import Product, publish, read_splits


def a_model() -> RecourseModel:
    return random_model(make_task(loans(60, seed=3)).encoder, TINY)


def test_a_stale_trainer_publishes_nothing(site: Site, customer: Customer) -> None:
    job_id = site.submit()
    product = Product(a_model(), None, AnswerOwner(customer.tenant_id, customer.ensemble_id, "1"), {"queries": 3})
    stale, fresh, store = hold(site), hold(site, 2 * LEASE), open_store(site.settings)
    with pytest.raises(LostLeaseError):
        publish(stale, store, "loans", True, product)
    assert site.version(job_id) is None and site.job(job_id).state == "running"
    version_id = publish(fresh, store, "loans", True, product)
    assert (site.job(job_id).state, site.job(job_id).model_version_id) == ("done", version_id)
    with pytest.raises(LostLeaseError):
        publish(fresh, store, "loans", True, product)


def test_what_the_lender_protects_no_training_sets_free(site: Site) -> None:
    schema = infer_schema(loans(ROWS).frame, "decision")
    narrowed = {"features": {"age": {"protected": True}, "housing": {"immutable": True}}}
    found = registered_schema("scores", schema, None, changed(site.request, overrides=narrowed))
    assert found.features[found.index("housing")].immutable and found.features[found.index("age")].protected
    lifted = changed(site.request, overrides={"features": {"age": {"protected": False}}})
    with pytest.raises(SchemaError, match="'age' is protected by the schema of ensemble 'scores'"):
        registered_schema("scores", schema, None, lifted)


def test_only_the_lender_says_whether_a_value_may_be_missing(site: Site) -> None:
    schema = infer_schema(loans(ROWS).frame, "decision")
    widened = changed(site.request, overrides={"features": {"income": {"nullable": True}}})
    with pytest.raises(SchemaError, match="Whether 'income' may be missing is for the schema of ensemble 'scores'"):
        registered_schema("scores", schema, None, widened)


def test_the_order_of_categories_is_the_lender_s(site: Site) -> None:
    """The ensemble reads a category by its number: another order would ask about another applicant."""
    schema = infer_schema(loans(ROWS).frame, "decision")
    listed = list(schema.features[schema.index("housing")].categories)
    same = changed(site.request, overrides={"features": {"housing": {"categories": listed}}})
    assert registered_schema("scores", schema, None, same).features == schema.features
    turned = changed(site.request, overrides={"features": {"housing": {"categories": listed[::-1]}}})
    with pytest.raises(ConflictError, match="order of its categories"):
        registered_schema("scores", schema, None, turned)


def test_names_of_the_rows_and_copies_of_the_label_are_not_trained_on(site: Site, tmp_path: Path) -> None:
    """Unless the request's overrides name them; codes for missing values are refused until somebody says otherwise."""
    frame = loans(ROWS, seed=3).frame
    frame = frame.assign(
        customer_id=range(7, 7 + 3 * ROWS, 3), approved_flag=(frame["decision"] == "approved").astype(int)
    )
    keep_table(site, frame, tmp_path)
    site.submit()
    context = open_context(site.settings, site.database, hold(site), lambda: False)
    names = read_splits(context, site.request, None).encoder.schema.names
    assert set(frame.columns) - set(names) == {"customer_id", "approved_flag", "decision"}
    named = changed(site.request, overrides={"features": {"customer_id": {"immutable": True}}})
    assert "customer_id" in read_splits(context, named, None).encoder.schema.names
    keep_table(site, frame.assign(savings=frame["savings"].fillna(-999)), tmp_path)
    with pytest.raises(DataError, match=r"'savings' holds -999 in .* leave those cells empty"):
        read_splits(context, site.request, None)
    number = changed(site.request, overrides={"features": {"savings": {"lower": -1000}}})
    assert not read_splits(context, number, None).encoder.schema.features[names.index("savings")].nullable


def keep_table(site: Site, frame: pd.DataFrame, folder: Path) -> None:
    """In place of the site's data set, as if it had been uploaded so."""
    frame.to_csv(folder / "table.csv", index=False)
    digest = hashlib.sha256((folder / "table.csv").read_bytes()).hexdigest()
    location = open_store(site.settings).put_file(folder / "table.csv", f"datasets/{digest}.csv")
    with site.database.writing() as connection:
        connection.execute(update(DatasetRow).values(location=location, digest=digest))


def test_a_column_is_trained_as_what_the_upload_told(site: Site) -> None:
    site.submit()
    context = open_context(site.settings, site.database, hold(site), lambda: False)
    asked: list[tuple[str, dict[str, object], FeatureKind]] = [
        ("categorical", {}, FeatureKind.CATEGORICAL),
        ("numeric", {}, FeatureKind.NUMERIC),
        ("categorical", {"dependents": {"kind": "integer"}}, FeatureKind.INTEGER),
    ]
    for told, overrides, kind in asked:
        features = [{"name": "dependents", "kind": told}, {"name": "decision", "kind": "categorical"}]
        with site.database.writing() as connection:
            connection.execute(update(DatasetRow).values(schema={"features": features}))
        request = changed(site.request, overrides={"features": overrides})
        schema = read_splits(context, request, None).encoder.schema
        assert schema.features[schema.index("dependents")].kind is kind
