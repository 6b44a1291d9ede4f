"""Training is asked for, watched, and cancelled."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import httpx
import pytest

from app.db.engine import Database
from app.db.tables import utc_now
from app.train import jobs
from app.train.jobs import Claim
from tests.app.api.conftest import Service
from tests.app.api.rows import SCHEMA, add_job
from tests.app.api.test_datasets import csv, upload
from tests.patience import BOUND


@pytest.fixture
def body(service: Service) -> dict[str, object]:
    return {"model": "loans", "dataset": upload(service.analyst, csv()).json()["id"], "queries": 100}


def test_a_job_is_made_then_the_bell_is_rung(service: Service, body: dict[str, object]) -> None:
    answer = service.analyst.post("/train", json=body)
    assert answer.status_code == 202
    job = answer.json()
    assert (job["state"], job["model"], job["request"]["queries"]) == ("queued", "loans", 100)
    assert str(service.server.bell.rung[-1]) == job["id"]
    assert service.viewer.get(f"/jobs/{job['id']}").json() == job
    summary = {name: value for name, value in job.items() if name != "request"}
    assert service.viewer.get("/jobs").json() == {"items": [summary], "next": None}
    assert service.viewer.get("/jobs", params={"state": "done"}).json()["items"] == []


def test_the_same_key_is_the_same_job(service: Service, body: dict[str, object]) -> None:
    first = service.analyst.post("/train", json=body, headers={"Idempotency-Key": "a"})
    again = service.analyst.post("/train", json=body, headers={"Idempotency-Key": "a"})
    assert (again.status_code, again.json()) == (202, first.json())
    assert (first.headers.get("Idempotent-Replayed"), again.headers["Idempotent-Replayed"]) == (None, "true")
    other = service.analyst.post("/train", json=body | {"seed": 1}, headers={"Idempotency-Key": "a"})
    assert (other.status_code, other.json()["type"]) == (422, "/problems/reused-key")
    assert len(service.viewer.get("/jobs").json()["items"]) == 1


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"dataset": str(uuid4())}, 404, "no data set"),
        ({"ensemble": "unknown"}, 404, "no registered ensemble"),
        ({"members": ["oracle"]}, 422, "members.0"),
        ({"members": ["knn", "svm", "knn"]}, 422, "members names 'knn' 2 times"),
        (
            {"ensemble": "scores", "members": ["knn"]},
            422,
            "but ensemble 'scores' is asked as it is",
        ),
        ({"ensemble": "scores", "mode": "tuned"}, 422, "leave out mode, or leave out ensemble"),
        ({"top_features": 10_000}, 422, "there are only"),
        ({"effort": 0}, 422, "effort"),
        ({"model": "a/b"}, 422, "model"),
        ({"quieries": 5}, 422, "quieries"),
    ],
)
def test_nonsense_is_refused(
    service: Service, body: dict[str, object], change: dict[str, object], status: int, reason: str
) -> None:
    answer = service.analyst.post("/train", json=body | change)
    assert (answer.status_code, reason in answer.text) == (status, True), answer.text
    assert service.viewer.get("/jobs").json()["items"] == []


def test_a_training_over_the_budget_is_told_at_once(service: Service, body: dict[str, object]) -> None:
    url = f"http://127.0.0.1:{service.server.lender.port}"
    endpoint = {"url": url, "model": "good", "members": ["forest"]}
    made = {"name": "scores", "version": "1", "endpoints": [endpoint], "schema": SCHEMA, "budget": {"limit": 9}}
    assert service.admin.post("/ensembles", json=made).status_code == 201
    wanted = body | {"ensemble": "scores"}
    over = service.analyst.post("/train", json=wanted)
    assert (over.status_code, over.json()["type"]) == (429, "/problems/query-limit")
    assert "but 9 of 9 remain" in over.json()["detail"]
    assert service.analyst.post("/train", json=wanted | {"queries": 9}).status_code == 202


def test_a_queue_has_its_limit(service: Service, body: dict[str, object], database: Database) -> None:
    for _ in range(service.resources.settings.max_queued_jobs):
        add_job(database, service.tenant_id)
    answer = service.analyst.post("/train", json=body)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_cancel(service: Service, database: Database) -> None:
    job_id = add_job(database, service.tenant_id)
    answer = service.analyst.delete(f"/jobs/{job_id}")
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelled")
    assert service.analyst.delete(f"/jobs/{job_id}").status_code == 409
    assert service.analyst.delete(f"/jobs/{uuid4()}").status_code == 404
    assert service.viewer.delete(f"/jobs/{job_id}").status_code == 403


def read_events(client: httpx.Client, job_id: object, last: int = 0) -> list[tuple[int, str, dict[str, object]]]:
    """(id, kind, payload) of every event until the stream ends."""
    told = []
    with client.stream("GET", f"/jobs/{job_id}/events", headers={"Last-Event-ID": str(last)}) as stream:
        assert (stream.status_code, stream.headers["Content-Type"].partition(";")[0]) == (200, "text/event-stream")
        fields: dict[str, str] = {}
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            fields[name] = value
            if not line and "data" in fields:
                told.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
                fields = {}
    return told


def test_events_are_told_as_they_happen_and_again_from_any_of_them(service: Service, database: Database) -> None:
    job_id = add_job(database, service.tenant_id)
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(read_events, service.viewer, job_id)
        with database.writing() as connection:
            row = jobs.claim(connection, "worker", utc_now(), utc_now() + timedelta(minutes=5), job_id)
            assert row is not None
        with database.writing() as connection:
            jobs.add_event(connection, service.tenant_id, job_id, "progress", {"phase": "flow", "step": 1}, utc_now())
        with database.writing() as connection:
            jobs.fail(connection, Claim(job_id, row.fence), "no memory", utc_now())
            jobs.add_event(connection, service.tenant_id, job_id, "state", {"state": "failed"}, utc_now())
        events = told.result(BOUND)
    assert [kind for _, kind, _ in events] == ["state", "progress", "state"]
    assert events[-1][2]["state"] == "failed" and "at" in events[-1][2]
    assert read_events(service.viewer, job_id, last=events[0][0]) == events[1:]
    assert service.viewer.get(f"/jobs/{job_id}").json()["error"] == "no memory"


def test_another_tenant_sees_no_job(service: Service, database: Database) -> None:
    job_id = add_job(database, service.tenant_id)
    for method, path in (("GET", f"/jobs/{job_id}"), ("GET", f"/jobs/{job_id}/events"), ("DELETE", f"/jobs/{job_id}")):
        assert service.stranger.request(method, path).status_code == 404
    assert service.stranger.get("/jobs").json()["items"] == []
