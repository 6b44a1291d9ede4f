"""A trainer takes jobs from the table and ends each of them, one way or another."""

from pathlib import Path

import pytest

from app.artifacts import open_store
from app.db.engine import Database
from models.artifact import load_ensemble_of, load_model
from tests.app.conftest import Customer
from tests.worker.site import Site, make_site


@pytest.fixture
def site(tmp_path: Path, database: Database, database_url: str, customer: Customer) -> Site:
    return make_site(tmp_path, database, database_url, customer)


def test_a_job_becomes_a_version(site: Site) -> None:
    job_id = site.submit()
    site.train_all()
    job, version = site.job(job_id), site.version(job_id)
    assert (job.state, job.error) == ("done", None)
    assert version is not None and (version.number, version.id) == (1, job.model_version_id)
    folder = open_store(site.settings).fetch_folder(version.location)
    load_model(folder)
    assert load_ensemble_of(folder).member_names == ("knn", "forest")
