"""Keys open what their role allows, until they are revoked."""

import json

import pytest
from sqlalchemy import select

from app.auth.principals import KeyCache
from app.db.engine import Database
from app.db.tables import ApiKey
from app.errors import AuthenticationError
from tests.app.api.conftest import Service


def test_a_key_is_shown_once_and_works(service: Service, database: Database) -> None:
    made = service.admin.post("/keys", json={"name": "loan system", "role": "admin"})
    assert made.status_code == 201
    key = made.json()["key"]
    assert key.startswith(f"rk_{made.json()['prefix']}") and len(key) > 50
    assert service.nobody.get("/keys", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    listed = service.admin.get("/keys").json()["items"]
    assert made.json()["id"] in [item["id"] for item in listed]
    assert key not in json.dumps(listed)
    with database.reading() as connection:
        assert not any(key[11:] in str(row) for row in connection.execute(select(ApiKey.__table__)))


def test_who_has_no_key_is_told_so(service: Service) -> None:
    for header in ({}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer"}, {"Authorization": "Bearer rk_x"}):
        answer = service.nobody.get("/keys", headers=header)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.json()["type"] == "/problems/key"


def test_roles(service: Service) -> None:
    for one in (service.client, service.viewer):
        answer = one.post("/keys", json={"name": "mine", "role": "admin"})
        assert (answer.status_code, answer.json()["type"]) == (403, "/problems/role")


def test_a_revoked_key_is_closed_at_once_here(service: Service) -> None:
    made = service.admin.post("/keys", json={"name": "short-lived", "role": "admin"}).json()
    bearer = {"Authorization": f"Bearer {made['key']}"}
    assert service.nobody.get("/keys", headers=bearer).status_code == 200
    assert service.admin.delete(f"/keys/{made['id']}").status_code == 204
    assert service.nobody.get("/keys", headers=bearer).status_code == 401
    assert service.admin.delete(f"/keys/{made['id']}").status_code == 204, "twice is harmless"


def test_the_last_admin_key_stays(service: Service) -> None:
    own = next(key for key in service.admin.get("/keys").json()["items"] if key["role"] == "admin")
    answer = service.admin.delete(f"/keys/{own['id']}")
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/conflict")
    assert service.admin.get("/keys").status_code == 200


def test_another_tenants_key_is_not_there(service: Service) -> None:
    own = service.admin.get("/keys").json()["items"][0]
    assert service.stranger.delete(f"/keys/{own['id']}").status_code == 404
    assert own["id"] not in [item["id"] for item in service.stranger.get("/keys").json()["items"]]


def test_pages(service: Service) -> None:
    made = [service.admin.post("/keys", json={"name": f"key {n}"}).json()["id"] for n in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        page = service.admin.get("/keys", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen[:5] == made[::-1] and len(seen) == len(set(seen)) == 8
    for nonsense in ("x", "AAAA", "MjAyNi0wMS0wMSBhYmM", "%00", "é"):
        answer = service.admin.get("/keys", params={"cursor": nonsense})
        assert (answer.status_code, answer.json()["type"]) == (422, "/problems/cursor")


def test_a_key_is_forgotten_after_its_time(service: Service, database: Database) -> None:
    now = [0.0]
    cache = KeyCache(database, service.resources.keyring, 5.0, clock=lambda: now[0])
    made = service.admin.post("/keys", json={"name": "remembered"}).json()
    assert cache.remembered(made["key"]) is None
    principal = cache.look_up(made["key"])
    service.admin.delete(f"/keys/{made['id']}")
    now[0] = 4.9
    assert cache.remembered(made["key"]) == principal
    now[0] = 5.0
    assert cache.remembered(made["key"]) is None
    with pytest.raises(AuthenticationError):
        cache.look_up(made["key"])
