"""Keys open what their role allows, until they are revoked."""

import json
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import select

from app.auth import principals, queries
from app.auth.principals import KeyCache
from app.auth.service import make_key, rotate_key
from app.db.engine import Database
from app.db.paging import _write_cursor
from app.db.tables import ApiKey, Role, utc_now
from app.errors import AuthenticationError
from app.main import maintain
from tests.app.api.conftest import Service

YEAR_1 = _write_cursor(f"0001-01-01T00:00:00+05:00 {UUID(int=1).hex}")
"""A moment that is none in UTC: it was a 500 on every list."""


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
    assert seen[:5] == made[::-1] and len(seen) == len(set(seen)) == 9
    for nonsense in ("x", "AAAA", "MjAyNi0wMS0wMSBhYmM", "%00", "é", YEAR_1):
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


def test_a_key_expires(service: Service, database: Database) -> None:
    """At once, also for who was remembered just before."""
    soon = utc_now() + timedelta(hours=1)
    made = service.admin.post("/keys", json={"name": "for a month", "expires_at": soon.isoformat()}).json()
    assert datetime.fromisoformat(made["expires_at"]) == soon
    bearer = {"Authorization": f"Bearer {made['key']}"}
    assert service.nobody.get("/jobs", headers=bearer).status_code == 200
    with database.writing() as connection:
        queries.end_key(connection, service.tenant_id, UUID(made["id"]), utc_now() - timedelta(minutes=1))
    service.resources.keys.forget()
    answer = service.nobody.get("/jobs", headers=bearer)
    assert answer.status_code == 401 and "the key expired on" in answer.json()["detail"]
    for wrong in ("2020-01-01T00:00:00Z", "0001-01-01T00:00:00+05:00", "2030-01-01T00:00:00", "never"):
        answer = service.admin.post("/keys", json={"name": "x", "expires_at": wrong})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "expires_at"), wrong


def test_a_remembered_key_ends_with_its_time(
    service: Service, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = KeyCache(database, service.resources.keyring, 60.0)
    ends = utc_now() + timedelta(hours=1)
    key, _ = make_key(database, service.resources.keyring, service.tenant_id, "short", Role.VIEWER, ends)
    assert cache.look_up(key.text) == cache.remembered(key.text)
    monkeypatch.setattr(principals, "utc_now", lambda: ends)
    assert cache.remembered(key.text) is None


def test_the_last_use_of_a_key_is_kept(service: Service) -> None:
    def used() -> dict[str, str | None]:
        return {key["role"]: key["last_used_at"] for key in service.admin.get("/keys").json()["items"]}

    assert used()["viewer"] is None
    service.viewer.get("/jobs")
    maintain(service.resources)
    first = used()["viewer"]
    assert first is not None and used()["client"] is None
    service.viewer.get("/jobs")
    maintain(service.resources)
    again = used()["viewer"]
    assert again is not None and again > first


def test_a_rotated_key_works_for_its_time_of_grace(service: Service, database: Database) -> None:
    keyring, old = service.resources.keyring, service.keys[Role.CLIENT]
    (row,) = [key for key in service.admin.get("/keys").json()["items"] if key["role"] == "client"]
    new = rotate_key(database, keyring, service.tenant_id, UUID(row["id"]), timedelta(hours=1))
    cache = KeyCache(database, keyring, 0.0)
    assert cache.look_up(old).role is cache.look_up(new.text).role is Role.CLIENT
    new_id = cache.look_up(new.text).key_id
    newer = rotate_key(database, keyring, service.tenant_id, new_id, timedelta(0))
    with pytest.raises(AuthenticationError, match="the key expired on"):
        cache.look_up(new.text)
    assert cache.look_up(newer.text).tenant_id == service.tenant_id
    with pytest.raises(AuthenticationError, match="the key expired on"):
        rotate_key(database, keyring, service.tenant_id, new_id, timedelta(0))


def test_a_disabled_tenant_s_keys_open_nothing(service: Service, database: Database) -> None:
    assert service.client.get("/jobs").status_code == 200
    for disabled_at, status in ((utc_now(), 401), (None, 200)):
        with database.writing() as connection:
            queries.disable_tenant(connection, service.tenant_id, disabled_at)
        service.resources.keys.forget()
        answer = service.client.get("/jobs")
        assert answer.status_code == status
        assert status == 200 or "disabled this lender" in answer.json()["detail"]
        assert service.stranger.get("/keys").status_code == 200


@pytest.mark.parametrize("path", ["/keys", "/jobs", "/models", "/datasets", "/explanations", "/ensembles", "/budgets"])
def test_a_cursor_of_the_year_1_is_refused_on_every_list(service: Service, path: str) -> None:
    answer = service.admin.get(path, params={"cursor": YEAR_1})
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/cursor")


def test_answers_to_a_key_are_kept_by_nobody(service: Service) -> None:
    made = service.admin.post("/keys", json={"name": "secret"})
    for answer in (made, service.admin.get("/keys"), service.viewer.get("/jobs"), service.viewer.get("/keys")):
        assert answer.headers["Cache-Control"] == "no-store"
