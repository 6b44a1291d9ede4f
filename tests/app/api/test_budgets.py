"""Limits are set by admins, seen by viewers, and every query is in the ledger."""

import csv
from datetime import timedelta

import pytest

from app.db.engine import Database
from app.db.tables import utc_now
from app.ledger.audit import check_ledger
from app.ledger.chain import ChainKey
from tests.app.api.conftest import Service
from tests.app.api.rows import add_ensemble


@pytest.fixture
def ensemble_id(service: Service, database: Database) -> int:
    return add_ensemble(database, service.tenant_id)


def spend(service: Service, ensemble_id: int, queries: int, reserved: int) -> None:
    reservation = service.resources.ledger.reserve(service.tenant_id, ensemble_id, reserved)
    service.resources.ledger.dispatch(reservation, queries)
    service.resources.ledger.settle(reservation)


def test_a_limit_is_set_and_shown(service: Service, ensemble_id: int) -> None:
    assert service.viewer.get("/budgets").json() == {"items": [], "next": None}
    made = service.admin.put("/budgets/loans", json={"limit": 50, "period": "month"})
    assert made.status_code == 200
    spend(service, ensemble_id, queries=7, reserved=10)
    (shown,) = service.viewer.get("/budgets").json()["items"]
    assert shown["period_ends"] is not None
    assert [shown[name] for name in ("ensemble", "limit", "used", "reserved", "remaining")] == ["loans", 50, 7, 0, 43]
    for client in (service.client, service.viewer):
        assert client.put("/budgets/loans", json={"limit": 5}).status_code == 403
    assert service.admin.put("/budgets/unknown", json={"limit": 5}).status_code == 404
    assert service.admin.put("/budgets/loans", json={"limit": -1}).status_code == 422


def test_another_period_is_no_way_around_a_limit(service: Service, ensemble_id: int) -> None:
    service.admin.put("/budgets/loans", json={"limit": 50, "period": "month"})
    spend(service, ensemble_id, queries=7, reserved=10)
    limited = service.admin.put("/budgets/loans", json={"limit": 20})
    assert (limited.json()["period"], limited.json()["remaining"]) == ("month", 13), "left out, it stays"
    refused = service.admin.put("/budgets/loans", json={"limit": 20, "period": "day"})
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/conflict")
    assert "7 queries are used" in refused.json()["detail"] and "send restart: true" in refused.json()["detail"]
    (shown,) = service.viewer.get("/budgets").json()["items"]
    assert (shown["period"], shown["limit"]) == ("month", 20)
    again = service.admin.put("/budgets/loans", json={"limit": 20, "period": "day", "restart": True})
    assert (again.status_code, again.json()["used"]) == (200, 0)


def test_budgets_come_in_pages(service: Service, database: Database, ensemble_id: int) -> None:
    for name in ("a", "b"):
        add_ensemble(database, service.tenant_id, name)
    for name in ("loans", "a", "b"):
        service.admin.put(f"/budgets/{name}", json={"limit": 5})
    first = service.viewer.get("/budgets", params={"limit": 2}).json()
    rest = service.viewer.get("/budgets", params={"limit": 2, "cursor": first["next"]}).json()
    assert [item["ensemble"] for item in first["items"] + rest["items"]] == ["loans", "a", "b"]
    assert rest["next"] is None


def test_usage_is_a_series(service: Service, ensemble_id: int) -> None:
    service.admin.put("/budgets/loans", json={"limit": 50})
    spend(service, ensemble_id, queries=3, reserved=3)
    spend(service, ensemble_id, queries=4, reserved=4)
    usage = service.viewer.get("/budgets/loans/usage", params={"step": "hour"}).json()
    assert sum(point["dispatched"] for point in usage["points"]) == usage["points"][-1]["total"] == 7
    now = utc_now()
    for since, until, status in (
        (now, now - timedelta(days=1), 422),
        (now - timedelta(days=20_000), now, 422),
        (now - timedelta(days=4_000), now, 413),
        (now - timedelta(days=2), now - timedelta(days=1), 200),
    ):
        window = {"since": since.isoformat(), "until": until.isoformat()}
        answer = service.viewer.get("/budgets/loans/usage", params=window)
        assert answer.status_code == status, window
    assert answer.json()["points"] == []


def test_the_ledger_as_json_and_as_csv(service: Service, ensemble_id: int) -> None:
    service.admin.put("/budgets/loans", json={"limit": 50})
    spend(service, ensemble_id, queries=3, reserved=5)
    entries, cursor = [], None
    while True:
        window = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = service.viewer.get("/budgets/loans/ledger", params=window).json()
        entries += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert [entry["kind"] for entry in entries][-3:] == ["reserve", "dispatch", "settle"]
    by_format = service.viewer.get("/budgets/loans/ledger", params={"format": "csv"})
    by_accept = service.viewer.get("/budgets/loans/ledger", headers={"Accept": "text/csv"})
    assert by_format.headers["Content-Type"].startswith("text/csv")
    assert by_format.text == by_accept.text
    rows = list(csv.DictReader(by_format.text.splitlines()))
    assert [int(row["id"]) for row in rows] == [entry["id"] for entry in entries]
    assert sum(int(row["used"]) for row in rows) == 3


def test_another_tenant_has_no_such_budget(service: Service, ensemble_id: int) -> None:
    service.admin.put("/budgets/loans", json={"limit": 50})
    assert service.stranger.get("/budgets").json()["items"] == []
    for path in ("/budgets/loans/usage", "/budgets/loans/ledger", "/budgets/loans/ledger?format=csv"):
        assert service.stranger.get(path).status_code == 404
    assert service.stranger.put("/budgets/loans", json={"limit": 1}).status_code == 404


def test_a_correction_is_an_entry_of_its_own(service: Service, ensemble_id: int) -> None:
    service.admin.put("/budgets/loans", json={"limit": 50})
    spend(service, ensemble_id, queries=7, reserved=10)
    settled = service.viewer.get("/budgets/loans/ledger").json()["items"][-1]
    wanted = {"queries": -5, "reason": "=the models were down", "reverses": settled["id"]}
    path, key = "/budgets/loans/corrections", {"Idempotency-Key": "k"}
    first, again = (service.admin.post(path, json=wanted, headers=key) for _ in range(2))
    assert (first.status_code, first.json()["used"], first.json()["remaining"]) == (201, 2, 48), first.text
    assert again.json() == first.json() and again.headers["Idempotent-Replayed"] == "true"
    for body, status, told in (
        ({"queries": -3, "reason": "x", "reverses": settled["id"]}, 409, "2 of which are not reversed"),
        ({"queries": 1, "reason": "x", "reverses": settled["id"]}, 409, "does not reverse it"),
        ({"queries": -1, "reason": "x", "reverses": settled["id"] + 99}, 404, "has no entry"),
        ({"queries": -3, "reason": "x"}, 409, "cannot be given back, 2 are used"),
        ({"queries": 49, "reason": "x"}, 409, "raise the limit first"),
        ({"queries": 0, "reason": "x"}, 422, "makes no sense"),
        ({"queries": 1, "reason": " "}, 422, "needs a reason"),
        ({"queries": 1, "reason": "x" * 501}, 422, "500"),
    ):
        answer = service.admin.post(path, json=body)
        assert (answer.status_code, told in answer.text) == (status, True), answer.text
    line = service.viewer.get("/budgets/loans/ledger").json()["items"][-1]
    assert [line[name] for name in ("kind", "used", "dispatched", "reason", "reverses")] == [
        "correct",
        -5,
        0,
        "=the models were down",
        settled["id"],
    ]
    assert line["made_by"].startswith("key ") and line["number"] == settled["number"] + 1
    row = list(csv.DictReader(service.viewer.get("/budgets/loans/ledger?format=csv").text.splitlines()))[-1]
    assert (row["reason"], row["mac"]) == ("'=the models were down", line["mac"])
    (point,) = service.viewer.get("/budgets/loans/usage").json()["points"]
    assert (point["dispatched"], point["total"], point["corrected"]) == (7, 7, -5)
    assert check_ledger(service.resources.database, ChainKey(service.resources.keyring.ledger_secret)) == []
