"""A lender with a model of two versions, a budget and a few explained applicants, served over HTTP for a browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import httpx
from pydantic import SecretStr
from sqlalchemy import update

from app.api.models import VERSION
from app.db.tables import ModelVersion, utc_now
from app.settings import Settings
from app.train import jobs
from app.train.jobs import Claim
from models.data.records import Value
from tests.fakes.lending import APPROVED, Lending
from tests.published import Saved
from tests.servers.api import MODEL, Lender, explain_service
from worker.held_job import HeldJob

METRICS = {
    "expected": {"records": 200, "answered": 1.0, "agreement": 0.94, "cost": 2.1, "changes": 3.4},
    "verified": {"records": 20, "agreement": 0.95, "unanimous": 0.8},
    "beside_oracle": VERSION["metrics"]["beside_oracle"],
    "queries": 200,
    "rows": 3600,
    "members": {"knn": 0.825, "forest": 0.871},
    "labels": {
        "records": 60,
        "base_rate": 0.69,
        "auc": {"knn": 0.81, "forest": 0.86},
        "accuracy": {"knn": 0.825, "forest": 0.871},
        "notices": ["'knn' answers 0 or 1, never a probability, so how sure it is cannot be learned."],
    },
}
DIAL = ((0.01, 3.5, 0.98), (0.1, 2.2, 0.93), (0.4, 1.5, 0.78), (0.9, 0.4, 0.3), (1.5, 0.1, 0.1))
FRONTIER = [{"price": price, "cost": cost, "agreement": agreement} for price, cost, agreement in DIAL]


@dataclass(frozen=True, eq=False)
class House:
    """The service, its lender, and the key that the browser signs in with."""

    url: str
    lender: Lender
    key: str
    refused: list[dict[str, Value]]

    @property
    def client(self) -> httpx.Client:
        return self.lender.client

    def set_limit(self, limit: int) -> None:
        assert self.client.put(f"/budgets/{MODEL}", json={"limit": limit}).status_code == 200

    def explain(self, queries: int, first: int) -> httpx.Response:
        """Two applicants, from the `first` on: answers that were bought before cost nothing."""
        body = {
            "model": MODEL,
            "records": self.refused[first : first + 2],
            "target": APPROVED,
            "candidates": 6,
            "robustness": {"min_agreement": 0.5, "max_queries": queries},
        }
        return self.client.post("/explain", json=body)

    def answered(self) -> dict[str, Value]:
        """An applicant for whom there is a way if three in five of the models are enough."""
        asked = {"min_agreement": 0.6, "max_queries": 10}
        body = {"model": MODEL, "records": self.refused[-12:], "target": APPROVED, "robustness": asked}
        found = self.client.post("/explain", json=body).json()["explanations"]
        ways = [row for row, one in enumerate(found) if one["counterfactuals"] and one["status"] in ("robust", "valid")]
        return self.refused[-12:][ways[0]]

    def hopeless(self) -> dict[str, Value]:
        """An applicant whom the models refuse as things are."""
        body = {
            "model": MODEL,
            "records": self.refused[:12],
            "target": APPROVED,
            "constraints": {"immutable": list(self.refused[0])},
            "robustness": {"max_queries": 10},
        }
        found = self.client.post("/explain", json=body).json()["explanations"]
        return next(self.refused[row] for row, one in enumerate(found) if one["status"] == "infeasible")

    def start_job(self) -> HeldJob:
        """A job in the hands of a trainer, which is the test."""
        job_id, now, tenant_id = uuid4(), utc_now(), self.lender.tenant_id
        with self.lender.database.writing() as connection:
            jobs.add_job(connection, tenant_id, job_id, MODEL, {"preset": "fast"}, now)
            jobs.add_event(connection, tenant_id, job_id, "state", {"state": "queued"}, now)
            row = jobs.claim(connection, "test", now, now.replace(year=now.year + 1), job_id)
            assert row is not None
            jobs.add_event(connection, tenant_id, job_id, "state", {"state": "running"}, now)
        return HeldJob(self.lender.database, Claim(job_id, row.fence), tenant_id)

    def finish_job(self, held: HeldJob, version_id: UUID) -> None:
        with self.lender.database.writing() as connection:
            jobs.finish(connection, held.claim, version_id, utc_now())
            jobs.add_event(connection, held.tenant_id, held.id, "state", {"state": "done"}, utc_now())


@contextmanager
def open_house(lending: Lending, saved: tuple[Saved, Saved], database_url: str, var_dir: Path) -> Iterator[House]:
    settings = Settings(var_dir=var_dir, database_url=SecretStr(database_url), min_free_bytes=0)
    with explain_service(settings, saved, workers=0) as service, service.lender() as lender:
        with lender.database.writing() as connection:
            connection.execute(update(ModelVersion).values(metrics=METRICS, frontier=FRONTIER))
        key = lender.client.headers["Authorization"].removeprefix("Bearer ")
        house = House(service.url, lender, key, lending.refused)
        house.set_limit(500)
        assert house.explain(queries=3, first=0).status_code == 200
        yield house
