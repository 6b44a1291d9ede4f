"""What holds for every route, walked: a key is needed, the role counts, and another tenant's things are not there."""

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

from app.db.engine import Database
from app.db.tables import Role, utc_now
from app.explain import decisions
from app.explain.decisions import Decision
from app.main import routers
from tests.app.api.conftest import Service
from tests.app.api.rows import SCHEMA, add_ensemble, add_job, publish
from tests.app.api.test_datasets import csv, upload

OPEN = {"/livez", "/readyz", "/v2/health/live", "/v2/health/ready"}
ADMINS = {"POST /keys", "GET /keys", "DELETE /keys/{key_id}", "POST /ensembles", "PUT /budgets/{ensemble}"} | {
    "POST /budgets/{ensemble}/corrections"
}
ANALYSTS = {
    "POST /datasets",
    "POST /train",
    "DELETE /jobs/{job_id}",
    "POST /models/{name}/activate",
    "PUT /models/{name}/policy",
}
BODIES: dict[str, object] = {
    "POST /explain": {"model": "loans", "records": [{"income": 1}], "target": "yes"},
    "POST /v1/models/{name}:explain": {"instances": [{"income": 1}], "target": "yes"},
    "POST /train": {"model": "loans", "dataset": "{dataset_id}"},
    "POST /models/{name}/activate": {"version": 1},
    "PUT /models/{name}/policy": {"policy": None},
    "POST /ensembles": {
        "name": "scores",
        "version": "1",
        "schema": SCHEMA,
        "endpoints": [{"url": "https://x", "model": "m", "members": ["a"]}],
        "budget": {"limit": 1},
    },
    "POST /ensembles/{name}/predict": {"records": [{"income": 1}]},
    "PUT /budgets/{ensemble}": {"limit": 1},
    "POST /budgets/{ensemble}/corrections": {"queries": 1, "reason": "for once"},
    "POST /keys": {"name": "mine"},
}


def routes() -> Iterator[str]:
    for router in routers():
        for route in router.routes:
            for method in sorted(getattr(route, "methods", ())):
                yield f"{method} {getattr(route, 'path', '')}"


@pytest.fixture
def own(service: Service, database: Database) -> dict[str, str]:
    """The path parameters of things that the first tenant has."""
    ensemble_id = add_ensemble(database, service.tenant_id)
    service.admin.put("/budgets/loans", json={"limit": 50})
    version_id = publish(database, service.tenant_id, ensemble_id)
    return {
        "name": "loans",
        "ensemble": "loans",
        "job_id": str(add_job(database, service.tenant_id)),
        "dataset_id": upload(service.analyst, csv()).json()["id"],
        "key_id": service.admin.post("/keys", json={"name": "other"}).json()["id"],
        "explanation_id": str(add_explanation(database, service.tenant_id, version_id)),
    }


def add_explanation(database: Database, tenant_id: int, version_id: UUID) -> UUID:
    decision = Decision(
        id=uuid4(),
        tenant_id=tenant_id,
        model_version_id=version_id,
        request_id="r1",
        position=0,
        target="yes",
        record=b'{"income":1}',
        order=b"{}",
        status="infeasible",
        answer=b'{"status":"infeasible","counterfactuals":[]}',
        queries=0,
        created_at=utc_now(),
    )
    with database.writing() as connection:
        decisions.add_decisions(connection, [decision])
    return decision.id


def filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    assert "{" not in text, f"the test knows no value for {text}"
    return text


def test_no_route_without_a_key_but_the_health_ones(service: Service, own: dict[str, str]) -> None:
    for route in routes():
        method, _, path = route.partition(" ")
        answer = service.nobody.request(method, filled(path, own))
        assert (answer.status_code == 401) == (path not in OPEN), route


def test_another_tenants_things_are_not_there(service: Service, own: dict[str, str]) -> None:
    """Its admin has every role; what is named in a path or in a body is not found."""
    walked = 0
    for route in routes():
        method, _, path = route.partition(" ")
        body = BODIES.get(route)
        if isinstance(body, dict) and "dataset" in body:
            body = body | {"dataset": own["dataset_id"]}
        if "{" in path or route in ("POST /explain", "POST /train"):
            answer = service.stranger.request(method, filled(path, own), json=body)
            assert answer.status_code == 404, (route, answer.text)
            walked += 1
    assert walked >= 14


def test_lists_of_another_tenant_are_empty(service: Service, own: dict[str, str]) -> None:
    for route in routes():
        method, _, path = route.partition(" ")
        if method == "GET" and "{" not in path and path not in OPEN | {"/keys", "/metrics"}:
            assert service.viewer.get(path).json()["items"], route
            assert service.stranger.get(path).json() == {"items": [], "next": None}, route


def test_a_viewer_only_reads(service: Service, own: dict[str, str]) -> None:
    for route in routes():
        method, _, path = route.partition(" ")
        if path in OPEN:
            continue
        if path == "/datasets" and method == "POST":
            answer = upload(service.viewer, csv())
        elif path == "/jobs/{job_id}/events":
            continue  # It would not end: the job waits. Reading it is tested in test_jobs.py.
        else:
            answer = service.viewer.request(method, filled(path, own), json=BODIES.get(route))
        refused = method != "GET" or route in ADMINS
        assert (answer.status_code == 403) == refused, (route, answer.status_code)


@pytest.mark.parametrize("role", [Role.CLIENT, Role.ANALYST])
def test_each_role_does_what_is_its_own(service: Service, own: dict[str, str], role: Role) -> None:
    """A client, the loan system, explains, verifies and reads; an analyst also uploads, trains and activates."""
    caller, beyond = (service.client, ANALYSTS | ADMINS) if role is Role.CLIENT else (service.analyst, ADMINS)
    for route in routes():
        method, _, path = route.partition(" ")
        if path == "/jobs/{job_id}/events":
            continue
        if route == "POST /datasets":
            answer = upload(caller, csv())
        else:
            answer = caller.request(method, filled(path, own), json=BODIES.get(route))
        assert (answer.status_code == 403) == (route in beyond), (route, answer.status_code)
        if route in beyond:
            assert answer.json()["type"] == "/problems/role"
