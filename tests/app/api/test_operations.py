"""Health and metrics."""

import pytest

from app.db.engine import Database
from tests.app.api.conftest import Service
from tests.app.api.rows import add_ensemble, add_job


@pytest.mark.parametrize("path", ["/livez", "/v2/health/live"])
def test_live(service: Service, path: str) -> None:
    assert service.nobody.get(path).json() == {"live": True}


@pytest.mark.parametrize("path", ["/readyz", "/v2/health/ready"])
def test_ready_names_the_part_that_is_not(service: Service, path: str) -> None:
    answer = service.nobody.get(path)
    assert (answer.status_code, answer.json()["ready"]) == (200, True)
    assert [part["name"] for part in answer.json()["parts"]] == ["database", "queue", "worker", "disk"]
    for part, standin, switch in (
        ("queue", service.server.bell, "well"),
        ("worker", service.server.explainer, "ready"),
    ):
        setattr(standin, switch, False)
        try:
            answer = service.nobody.get(path)
        finally:
            setattr(standin, switch, True)
        assert answer.status_code == 503
        assert [one["name"] for one in answer.json()["parts"] if not one["ready"]] == [part]


def test_metrics_are_the_tenants_own(service: Service, database: Database) -> None:
    ensemble_id = add_ensemble(database, service.tenant_id)
    service.admin.put("/budgets/loans", json={"limit": 50})
    ledger = service.resources.ledger
    ledger.dispatch(ledger.reserve(service.tenant_id, ensemble_id, 9), 4)
    add_job(database, service.tenant_id)
    text = service.viewer.get("/metrics").text
    for line in (
        'recourse_budget_limit{ensemble="loans",period="always"} 50.0',
        'recourse_budget_reserved{ensemble="loans",period="always"} 9.0',
        'recourse_jobs{state="queued"} 1.0',
        'recourse_jobs{state="done"} 0.0',
        "recourse_explainer_ready 1.0",
        'recourse_request_seconds_count{method="PUT",route="/budgets/{ensemble}",status="200"}',
    ):
        assert line in text, text
    assert 'ensemble="loans"' not in service.stranger.get("/metrics").text
    assert service.nobody.get("/metrics").status_code == 401
