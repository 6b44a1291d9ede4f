"""Versions are listed, switched, and rolled back."""

from app.db.engine import Database
from app.ensembles import directory
from tests.app.api.conftest import Service
from tests.app.api.rows import SCHEMA, add_ensemble, publish


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
        answer = service.analyst.post("/models/loans/activate", json={"version": number})
        assert (answer.status_code, answer.json()["active_version"]) == (200, number)
        assert service.viewer.get("/models/loans").json()["active_version"] == number
    assert service.analyst.post("/models/loans/activate", json={"version": 3}).status_code == 404
    assert service.analyst.post("/models/unknown/activate", json={"version": 1}).status_code == 404
    assert service.viewer.post("/models/loans/activate", json={"version": 2}).status_code == 403


def test_the_ensemble_follows_the_active_version(service: Service, database: Database) -> None:
    """Who asks the models themselves must not get others than those that the explanations are for."""
    ensemble_id = add_ensemble(database, service.tenant_id, version="first")
    publish(database, service.tenant_id, ensemble_id, ensemble_version="first", members=("knn",))
    second = publish(database, service.tenant_id, ensemble_id, ensemble_version="second", members=("knn", "svm"))
    shapes = {1: ("first", ["knn"]), 2: ("second", ["knn", "svm"])}
    for number in (2, 1, 2):
        service.analyst.post("/models/loans/activate", json={"version": number})
        (shown,) = service.viewer.get("/ensembles").json()["items"]
        assert (shown["version"], shown["members"], shown["classes"]) == (*shapes[number], ["no", "yes"])
    assert service.client.post("/ensembles/loans/predict", json={"records": [{"income": 5}]}).status_code == 200
    assert service.server.explainer.verified[-1].version_id == second


def test_a_registered_ensemble_stays_as_it_was_registered(service: Service, database: Database) -> None:
    ensemble_id = add_ensemble(database, service.tenant_id, "scores", "2026-01")
    with database.writing() as connection:
        directory.describe_remote(connection, service.tenant_id, ensemble_id, "2026-02", SCHEMA, [], None)
    publish(database, service.tenant_id, ensemble_id, ensemble_version="2026-01")
    assert service.analyst.post("/models/loans/activate", json={"version": 1}).status_code == 200
    assert service.viewer.get("/ensembles").json()["items"][0]["version"] == "2026-02"


def test_another_tenant_has_no_such_model(service: Service, database: Database) -> None:
    publish(database, service.tenant_id, add_ensemble(database, service.tenant_id))
    assert service.stranger.get("/models/loans").status_code == 404
    assert service.stranger.post("/models/loans/activate", json={"version": 1}).status_code == 404
    assert service.stranger.get("/models").json()["items"] == []
    publish(database, service.tenant_id, add_ensemble(database, service.tenant_id, "other"), "other")
