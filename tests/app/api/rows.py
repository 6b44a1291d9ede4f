"""Rows that other processes would have written: jobs, and the versions that they published."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

from app.db.engine import Database
from app.db.tables import utc_now
from app.ensembles import directory
from app.registry import queries
from app.registry.queries import NewVersion
from app.train import jobs

SCHEMA = {
    "version": 1,
    "label": "approved",
    "classes": ["no", "yes"],
    "features": [
        {
            "name": "income",
            "kind": "integer",
            "lower": 0.0,
            "upper": 1000.0,
            "step": 1.0,
            "categories": [],
            "ordered": False,
            "immutable": False,
            "protected": False,
            "direction": "any",
            "nullable": False,
        }
    ],
}


def add_job(database: Database, tenant_id: int, model: str = "loans") -> UUID:
    job_id = uuid4()
    with database.writing() as connection:
        jobs.add_job(connection, tenant_id, job_id, model, {"dataset_id": str(uuid4())}, utc_now())
        jobs.add_event(connection, tenant_id, job_id, "state", {"state": "queued"}, utc_now())
    return job_id


def add_ensemble(database: Database, tenant_id: int, name: str = "loans", version: str = "1") -> int:
    with database.writing() as connection:
        return directory.add_ensemble(connection, tenant_id, name, version, datetime.now(UTC))


def publish(
    database: Database,
    tenant_id: int,
    ensemble_id: int,
    model: str = "loans",
    ensemble_version: str = "1",
    members: tuple[str, ...] = (),
) -> UUID:
    """A version of the model; the first is active."""
    job_id = add_job(database, tenant_id, model)
    with database.writing() as connection:
        version = NewVersion(
            job_id,
            "models/x",
            "d" * 64,
            ensemble_id,
            ensemble_version,
            SCHEMA,
            ["no", "yes"],
            {"fidelity": 0.9} | ({"members": dict.fromkeys(members, 0.8)} if members else {}),
            [{"price": 0.1, "cost": 1.0}],
        )
        return queries.publish(connection, tenant_id, model, version, False, utc_now())
