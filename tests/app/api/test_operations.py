"""Health and metrics."""

from pathlib import Path

import httpx
import pytest

from app.auth import queries
from app.db.engine import Database
from app.db.tables import utc_now
from app.main import create_app
from app.train.queue import RedisQueue
from tests.app.api.conftest import METRICS_KEY, Service
from tests.app.api.rows import add_ensemble, add_job
from tests.fakes.service import SilentExplainer
from tests.servers.http import serving

PURPOSES = ("explaining", "training")


@pytest.mark.parametrize("path", ["/livez", "/v2/health/live"])
def test_live(service: Service, path: str) -> None:
    assert service.nobody.get(path).json() == {"live": True}


@pytest.mark.parametrize("path", ["/readyz", "/v2/health/ready"])
def test_ready_names_the_part_that_is_not(service: Service, path: str) -> None:
    answer = service.nobody.get(path)
    assert (answer.status_code, answer.json()["ready"]) == (200, True)
    assert [part["name"] for part in answer.json()["parts"]] == ["database", "queue", "worker", "disk"]
    for part, standin, switch, stopped in (
        ("queue", service.server.bell, "well", "training"),
        ("worker", service.server.explainer, "ready", "explaining"),
    ):
        setattr(standin, switch, False)
        try:
            answers = {purpose: service.nobody.get(path, params={"for": purpose}) for purpose in PURPOSES}
            plain = service.nobody.get(path)
        finally:
            setattr(standin, switch, True)
        assert plain.json() == answers["explaining"].json() and plain.status_code == answers["explaining"].status_code
        for purpose, answer in answers.items():
            assert (answer.status_code, answer.json()["ready"]) == ((503, False) if purpose == stopped else (200, True))
            assert {name: answer.json()[name] for name in PURPOSES} == {name: name != stopped for name in PURPOSES}
            (away,) = [one for one in answer.json()["parts"] if not one["ready"]]
            assert (away["name"], away["needed_for"]) == (part, [stopped])


@pytest.mark.parametrize("path", ["/readyz", "/v2/health/ready"])
def test_a_redis_that_is_away_drains_no_api_that_explains(service: Service, path: str, tmp_path: Path) -> None:
    resources = service.resources
    queue = RedisQueue("redis://127.0.0.1:1/0")
    app = create_app(resources.settings, resources.database, SilentExplainer(), queue)
    with serving(app) as url:
        assert httpx.get(url + path).status_code == 200
        answer = httpx.get(url + path, params={"for": "training"})
        assert answer.status_code == 503
        assert [part["name"] for part in answer.json()["parts"] if not part["ready"]] == ["queue"]
        assert httpx.get(url + path, params={"for": "tea"}).status_code == 422


def test_metrics_are_the_tenants_own(service: Service, database: Database) -> None:
    ensemble_id = add_ensemble(database, service.tenant_id)
    service.admin.put("/budgets/loans", json={"limit": 50})
    ledger = service.resources.ledger
    ledger.dispatch(ledger.reserve(service.tenant_id, ensemble_id, 9), 4)
    add_job(database, service.tenant_id)
    text = service.viewer.get("/metrics").text
    whole = service.nobody.get("/metrics", headers={"Authorization": f"Bearer {METRICS_KEY}"}).text
    for line in (
        'recourse_budget_limit{ensemble="loans",period="always"} 50.0',
        'recourse_budget_reserved{ensemble="loans",period="always"} 9.0',
        'recourse_jobs{state="queued"} 1.0',
        'recourse_jobs{state="done"} 0.0',
        "recourse_explainer_ready 1.0",
    ):
        assert line in text, text
    with database.reading() as connection:
        names = {row.id: row.name for row in queries.list_tenants(connection, utc_now())}
    for line in (
        'recourse_request_seconds_count{method="PUT",route="/budgets/{ensemble}",status="200"}',
        f'recourse_budget_limit{{ensemble="loans",period="always",tenant="{names[service.tenant_id]}"}} 50.0',
        "recourse_explainer_queued 0.0",
    ):
        assert line in whole, whole
    assert not any(name in text for name in names.values())
    for others in ("recourse_request_seconds", "recourse_blackbox_queries", "recourse_explainer_queued"):
        assert others not in text, "it counts what other tenants do"
    guess = service.nobody.get("/metrics", headers={"Authorization": f"Bearer {METRICS_KEY}x"})
    assert guess.status_code == 401
    assert 'ensemble="loans"' not in service.stranger.get("/metrics").text
    assert service.nobody.get("/metrics").status_code == 401
