"""Ensembles are registered, asked through the ledger, and their credentials are never seen again."""

import asyncio
import threading
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from anyio import to_thread
from sqlalchemy import select
from structlog.testing import capture_logs

from app.concurrency import Deadline
from app.db.engine import Database
from app.db.ledger_tables import EnsembleRow
from app.db.tables import OPERATOR
from app.ensembles import directory
from app.ensembles.bindings import list_bound, unbind
from app.ensembles.service import bind_endpoint
from app.explain import asking
from app.explain.asking import AskService
from app.explain.contract import VerifyAnswer
from app.resources import ASKING_AT_ONCE
from tests.app.api.conftest import METRICS_KEY, Service
from tests.app.api.rows import SCHEMA, add_ensemble, publish
from tests.patience import BOUND, until

SECRET = "token-of-the-lender"


@pytest.fixture
def body(service: Service) -> dict[str, Any]:
    url = f"http://127.0.0.1:{service.server.lender.port}"
    endpoint = {"url": url, "model": "good", "members": ["forest"], "credential": SECRET}
    return {
        "name": "scores",
        "version": "1",
        "schema": SCHEMA,
        "endpoints": [endpoint],
        "budget": {"limit": 10, "period": "none"},
    }


def test_registered_and_asked(service: Service, body: dict[str, Any]) -> None:
    made = service.admin.post("/ensembles", json=body)
    assert made.status_code == 201, made.text
    shown = made.json()
    assert (shown["members"], shown["classes"], shown["kind"]) == (["forest"], ["no", "yes"], "remote")
    assert service.viewer.get("/ensembles").json()["items"] == [made.json()]
    records = [{"income": 5}, {"income": "much"}, {"income": 7}]
    answer = service.client.post("/ensembles/scores/predict", json={"records": records})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert [record["probabilities"] for record in told["predictions"]] == [
        {"forest": [0.25, 0.75]},
        {},
        {"forest": [0.25, 0.75]},
    ]
    assert "income" in told["predictions"][1]["error"]
    assert (told["charged"], told["reused"]) == (2, 0)
    again = service.client.post("/ensembles/scores/predict", json={"records": records[:1]}).json()
    assert (again["charged"], again["reused"]) == (0, 1), "an answer is bought once"
    (budget,) = service.viewer.get("/budgets").json()["items"]
    assert (budget["used"], budget["reserved"], budget["limit"]) == (2, 0, 10)
    assert service.server.lender.requests[-1][1] == f"Bearer {SECRET}"


def test_the_credential_is_in_no_answer_no_log_and_not_readable_in_the_database(
    service: Service, body: dict[str, Any], database: Database
) -> None:
    with capture_logs() as lines:
        made = service.admin.post("/ensembles", json=body)
        wrong = service.admin.post("/ensembles", json=body | {"name": "/", "version": ""})
        listed = service.admin.get("/ensembles")
    with database.reading() as connection:
        rows = connection.execute(select(EnsembleRow.__table__)).all()
    assert any(row.credentials for row in rows)
    for place in (made.text, wrong.text, listed.text, str(lines), str(rows)):
        assert SECRET not in place


def test_a_budget_that_may_not_be_set_changes_no_ensemble(service: Service, body: dict[str, Any]) -> None:
    service.admin.post("/ensembles", json=body)
    service.client.post("/ensembles/scores/predict", json={"records": [{"income": 5}]})
    replaced = body | {"version": "2", "budget": {"limit": 10, "period": "day"}}
    refused = service.admin.post("/ensembles", json=replaced)
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/conflict")
    assert service.viewer.get("/ensembles").json()["items"][0]["version"] == "1"
    replaced["budget"]["restart"] = True
    assert service.admin.post("/ensembles", json=replaced).json()["version"] == "2"


def test_an_endpoint_that_the_operator_binds_is_asked_by_nobody_else(
    service: Service, body: dict[str, Any], database: Database
) -> None:
    """Before: another tenant registered the same endpoint, and asked it beside the first one's budget."""
    for one in (service.admin, service.stranger):
        assert one.post("/ensembles", json=body).status_code == 201
    with database.writing() as connection:
        bind_endpoint(connection, "gateway", body["endpoints"][0]["url"], [service.tenant_id])
        (bound,) = list_bound(connection)
    try:
        seen, records = len(service.server.lender.requests), {"records": [{"income": 5}]}
        for refused in (
            service.stranger.post("/ensembles/scores/predict", json=records),
            service.stranger.post("/ensembles", json=body | {"name": "again"}),
        ):
            assert (refused.status_code, refused.json()["type"]) == (403, "/problems/endpoint")
            assert "not bound to this tenant" in refused.json()["detail"]
        assert len(service.server.lender.requests) == seen
        service.resources.ledger.set_limit(OPERATOR, bound.ensemble_id, 1)
        assert service.client.post("/ensembles/scores/predict", json=records).json()["charged"] == 1
        over = service.client.post("/ensembles/scores/predict", json={"records": [{"income": 6}]})
        assert (over.status_code, over.json()["type"]) == (429, "/problems/query-limit")
        assert "the operator's limit on the endpoint 'gateway'" in over.json()["detail"]
        (budget,) = service.viewer.get("/budgets").json()["items"]
        assert (budget["used"], budget["reserved"]) == (1, 0)
        line = 'recourse_budget_used{ensemble="gateway",period="always",tenant="@operator"} 1.0'
        operator = {"Authorization": f"Bearer {METRICS_KEY}"}
        assert line in service.nobody.get("/metrics", headers=operator).text
        assert "gateway" not in service.viewer.get("/metrics").text
    finally:
        with database.writing() as connection:
            unbind(connection, bound.ensemble_id)


def test_a_query_past_the_limit_is_refused(service: Service, body: dict[str, Any]) -> None:
    service.admin.post("/ensembles", json=body)
    seen = len(service.server.lender.requests)
    many = {"records": [{"income": income} for income in range(11)]}
    answer = service.client.post("/ensembles/scores/predict", json=many)
    assert (answer.status_code, answer.json()["type"]) == (429, "/problems/query-limit")
    assert len(service.server.lender.requests) == seen


def test_a_record_without_a_value_that_is_needed_is_not_put_to_the_models(
    service: Service, body: dict[str, Any]
) -> None:
    service.admin.post("/ensembles", json=body)
    told = service.client.post("/ensembles/scores/predict", json={"records": [{"income": None}, {"income": 1}]}).json()
    assert "'income' has no value" in told["predictions"][0]["error"]
    assert (told["predictions"][1]["error"], told["charged"]) == (None, 1)


def test_models_that_do_not_answer(service: Service, body: dict[str, Any]) -> None:
    body["endpoints"][0]["model"] = "status_500"
    service.admin.post("/ensembles", json=body)
    answer = service.client.post("/ensembles/scores/predict", json={"records": [{"income": 1}]})
    assert (answer.status_code, answer.json()["type"]) == (502, "/problems/ensemble")
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"endpoints": [{"url": "https://evil.example", "model": "m", "members": ["a"]}]}, 403, "endpoint"),
        ({"endpoints": [{"url": "ftp://127.0.0.1", "model": "m", "members": ["a"]}]}, 403, "endpoint"),
        ({"endpoints": [{"url": "x", "model": "m", "members": ["a"], "outputs": ["b", "c"]}]}, 422, "configuration"),
        ({"endpoints": []}, 422, "validation"),
        ({"schema": {"version": 1}}, 422, "schema"),
        ({"schema": {}}, 422, "schema"),
        ({"budget": {"limit": -1}}, 422, "validation"),
    ],
)
def test_nonsense_is_refused(
    service: Service, body: dict[str, Any], change: dict[str, Any], status: int, word: str
) -> None:
    answer = service.admin.post("/ensembles", json=body | change)
    assert (answer.status_code, answer.json()["type"]) == (status, f"/problems/{word}"), answer.text
    assert service.admin.get("/ensembles").json()["items"] == []


def test_changed_members_need_a_new_version(service: Service, body: dict[str, Any]) -> None:
    service.admin.post("/ensembles", json=body)
    body["endpoints"][0]["members"] = ["boosting"]
    assert service.admin.post("/ensembles", json=body).status_code == 409
    made = service.admin.post("/ensembles", json=body | {"version": "2"})
    assert (made.status_code, made.json()["members"], made.json()["version"]) == (201, ["boosting"], "2")
    told = service.client.post("/ensembles/scores/predict", json={"records": [{"income": 1}]}).json()
    assert list(told["predictions"][0]["probabilities"]) == ["boosting"]


def test_a_local_ensemble_is_asked_through_its_model(
    service: Service, body: dict[str, Any], database: Database
) -> None:
    ensemble_id = add_ensemble(database, service.tenant_id)
    request = {"records": [{"income": 1}, {"income": 2}]}
    assert service.client.post("/ensembles/loans/predict", json=request).status_code == 404, "nothing is trained yet"
    version_id = publish(database, service.tenant_id, ensemble_id)
    told = service.client.post("/ensembles/loans/predict", json=request).json()
    assert (told["charged"], told["predictions"][1]["probabilities"]) == (2, {"mlp": [0.25, 0.75]})
    order = service.server.explainer.verified[-1]
    assert (order.tenant_id, order.version_id, order.records) == (service.tenant_id, version_id, request["records"])
    assert service.admin.post("/ensembles", json=body | {"name": "loans"}).status_code == 409, "the name is taken"


def test_models_that_are_slow_keep_nobody_else_waiting(service: Service, body: dict[str, Any]) -> None:
    """They are waited for in threads of their own: those of the service stay free for everything else."""
    body["endpoints"][0] |= {"model": "silence", "seconds": 3.0}
    service.admin.post("/ensembles", json=body)

    async def scenario() -> int:
        lender, seen = service.server.lender, len(service.server.lender.requests)
        asked = [
            asyncio.create_task(service.resources.ask.predict(service.tenant_id, "scores", [{"income": number}]))
            for number in range(3)
        ]
        while len(lender.requests) < seen + 3:
            await asyncio.sleep(0.01)
        busy = to_thread.current_default_thread_limiter().borrowed_tokens
        await asyncio.gather(*asked, return_exceptions=True)
        return busy

    assert asyncio.run(scenario()) == 0


def test_slow_models_of_some_tenants_keep_no_other_tenant_waiting(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many predictions two of them ask for: the third has its answer while all of those wait."""
    asked, gate, said = list[int](), Event(), VerifyAnswer((), (), (), 0, 0)

    def ask(service: AskService, row: EnsembleRow, records: list[object], deadline: Deadline) -> VerifyAnswer:
        asked.append(row.tenant_id)
        assert row.tenant_id == 3 or gate.wait(BOUND)
        return said

    async def predict(tenant_id: int) -> VerifyAnswer:
        return (await service.resources.ask.predict(tenant_id, "scores", [{"income": 1}])).answer

    async def scenario() -> None:
        slow = [asyncio.create_task(predict(tenant_id)) for tenant_id in (1, 2) for _ in range(80)]
        await until(lambda: len(asked) >= ASKING_AT_ONCE * 3 // 4)
        assert await asyncio.wait_for(predict(3), BOUND) is said
        gate.set()
        await asyncio.gather(*slow)

    monkeypatch.setattr(AskService, "_ask_remote", ask)
    found = {tenant_id: EnsembleRow(tenant_id=tenant_id, kind="remote") for tenant_id in (1, 2, 3)}
    monkeypatch.setattr(asking, "find_ensemble", lambda _, tenant_id, name: found[tenant_id])
    try:
        asyncio.run(scenario())
    finally:
        gate.set()


def test_a_prediction_ends_at_its_deadline(service: Service, body: dict[str, Any], database: Database) -> None:
    body["endpoints"][0] |= {"model": "silence", "seconds": 30.0}
    service.admin.post("/ensembles", json=body)
    began = time.monotonic()
    answer = service.client.post("/ensembles/scores/predict", json={"records": [{"income": 1}], "deadline_ms": 300})
    assert (answer.status_code, answer.json()["type"]) == (504, "/problems/deadline"), answer.text
    assert 0.3 <= time.monotonic() - began < 15
    publish(database, service.tenant_id, add_ensemble(database, service.tenant_id))
    for asked_ms, seconds in ((7_000, 7), (None, 30), (2**31, 300)):
        request: dict[str, object] = {"records": [{"income": 1}], "deadline_ms": asked_ms}
        assert service.client.post("/ensembles/loans/predict", json=request).status_code == 200
        left = service.server.explainer.verified[-1].deadline - time.monotonic()
        assert seconds - 5 < left <= seconds
    for nonsense in (0, -1, "soon"):
        request = {"records": [{"income": 1}], "deadline_ms": nonsense}
        assert service.client.post("/ensembles/loans/predict", json=request).status_code == 422


def test_two_who_register_a_name_at_once(
    service: Service, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second does not see the row of the first before it writes its own."""
    service.admin.post("/ensembles", json=body)
    monkeypatch.setattr(directory, "lock_ensemble", lambda *place: None)
    answer = service.admin.post("/ensembles", json=body)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/conflict")


def test_too_many_records(service: Service, body: dict[str, Any]) -> None:
    service.admin.post("/ensembles", json=body)
    answer = service.client.post("/ensembles/scores/predict", json={"records": [{"income": 1}] * 1001})
    assert answer.status_code == 413


def test_another_tenant_has_no_such_ensemble(service: Service, body: dict[str, Any]) -> None:
    service.admin.post("/ensembles", json=body)
    answer = service.stranger.post("/ensembles/scores/predict", json={"records": [{"income": 1}]})
    assert answer.status_code == 404
    assert service.stranger.get("/ensembles").json()["items"] == []
    for client in (service.client, service.viewer):
        assert client.post("/ensembles", json=body).status_code == 403
    assert service.viewer.post("/ensembles/scores/predict", json={"records": [{"income": 1}]}).status_code == 403


@pytest.mark.parametrize("behaviour", ["twice", "twice_with_id", "two_at_once"])
def test_an_answer_is_never_another_records(service: Service, body: dict[str, Any], behaviour: str) -> None:
    """A server that answers each request twice on a connection that is kept."""
    body["endpoints"][0]["model"] = behaviour
    body["budget"]["limit"] = 1000
    service.admin.post("/ensembles", json=body)
    answered = 0
    for income in range(1, 10):
        asked = {"records": [{"income": income}]}
        for _ in range(2):  # The second time from what was bought.
            answer = service.client.post("/ensembles/scores/predict", json=asked)
            if answer.status_code == 200:
                (said,) = answer.json()["predictions"]
                assert said["probabilities"]["forest"][1] == pytest.approx(income / 10)
                answered += 1
    assert answered >= 16, "the connection is dropped, so that one lost answer is all that it costs"


def test_a_call_that_the_operator_does_not_allow_costs_nothing(service: Service, body: dict[str, Any]) -> None:
    body["endpoints"][0]["url"] = "http://10.0.0.1"
    made = service.admin.post("/ensembles", json=body)
    assert made.status_code == 201, made.text
    answer = service.client.post("/ensembles/scores/predict", json={"records": [{"income": 5}]})
    told, words = (
        answer.json()["detail"],
        "the operator must add 10.0.0.1, or its network, to RECOURSE_BLACKBOX_NETWORKS",
    )
    (budget,) = service.viewer.get("/budgets").json()["items"]
    assert (answer.status_code, budget["used"], budget["reserved"]) == (502, 0, 0)
    assert words in told and "try later" not in told, told


def test_many_ensembles_share_one_thread_and_few_connections(service: Service, body: dict[str, Any]) -> None:
    body["endpoints"][0]["model"] = "mirror"
    names = [f"scores-{number}" for number in range(40)]
    for name in names:
        assert service.admin.post("/ensembles", json=body | {"name": name}).status_code == 201

    def ask_all(income: int) -> tuple[int, int]:
        for name in names:
            answer = service.client.post(f"/ensembles/{name}/predict", json={"records": [{"income": income}]})
            assert answer.status_code == 200, answer.text
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    threads, descriptors = ask_all(1)
    for income in range(2, 6):
        more = ask_all(income)
    assert more[0] <= threads + 16 and more[1] <= descriptors + 16
    assert sum(thread.name == "black boxes" for thread in threading.enumerate()) == 1
