"""Versions are listed, switched, and rolled back."""

from app.db.engine import Database
from tests.app.api.conftest import Service
from tests.app.api.rows import add_ensemble, publish


def test_versions_are_shown_newest_first_in_pages(service: Service, database: Database) -> None:
    ensemble_id = add_ensemble(database, service.tenant_id)
    for _ in range(3):
        publish(database, service.tenant_id, ensemble_id)
    listed = service.viewer.get("/models").json()["items"]
    assert [(model["name"], model["active_version"]) for model in listed] == [("loans", 1)]
    first = service.viewer.get("/models/loans", params={"limit": 2}).json()
    assert [version["number"] for version in first["versions"]] == [3, 2]
    version = first["versions"][0]
    assert (version["ensemble"], version["metrics"], version["frontier"]) == (
        "loans",
        {"fidelity": 0.9},
        [{"price": 0.1, "cost": 1.0}],
    )
    rest = service.viewer.get("/models/loans", params={"limit": 2, "cursor": first["next"]}).json()
    assert ([version["number"] for version in rest["versions"]], rest["next"]) == ([1], None)


def test_switch_and_roll_back(service: Service, database: Database) -> None:
    ensemble_id = add_ensemble(database, service.tenant_id)
    for _ in range(2):
        publish(database, service.tenant_id, ensemble_id)
    for number in (2, 1):
        answer = service.client.post("/models/loans/activate", json={"version": number})
        assert (answer.status_code, answer.json()["active_version"]) == (200, number)
        assert service.viewer.get("/models/loans").json()["active_version"] == number
    assert service.client.post("/models/loans/activate", json={"version": 3}).status_code == 404
    assert service.client.post("/models/unknown/activate", json={"version": 1}).status_code == 404
    assert service.viewer.post("/models/loans/activate", json={"version": 2}).status_code == 403


def test_another_tenant_has_no_such_model(service: Service, database: Database) -> None:
    publish(database, service.tenant_id, add_ensemble(database, service.tenant_id))
    assert service.stranger.get("/models/loans").status_code == 404
    assert service.stranger.post("/models/loans/activate", json={"version": 1}).status_code == 404
    assert service.stranger.get("/models").json()["items"] == []
    publish(database, service.tenant_id, add_ensemble(database, service.tenant_id, "other"), "other")
