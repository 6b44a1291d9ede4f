"""Sessions without a browser: what a stranger, another site and an old cookie can do, which is nothing."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

import httpx
import pytest

from app import concurrency
from app.auth import principals
from app.auth.principals import Principal
from app.dashboard.rendering import STATIC, asset_url
from app.db.engine import Database
from app.db.tables import Role, utc_now
from app.errors import AuthenticationError
from tests.app.api.conftest import Service, database, server, service, shared_database_url
from tests.app.api.conftest import client as client_of
from tests.app.api.rows import add_ensemble
from tests.app.api.test_live_streams import listening, wait_for_the_end

__all__ = ["database", "server", "service", "shared_database_url"]

HTML = {"Accept": "text/html"}
PAGES = ("/", "/explain", "/models", "/jobs", "/keys")


@contextmanager
def sign_in(service: Service, role: Role = Role.ADMIN) -> Iterator[httpx.Client]:
    with client_of(service.server.url, None) as client:
        assert client.post("/sign-in", data={"key": service.keys[role]}).status_code == 303
        yield client


def token(client: httpx.Client) -> str:
    page = client.get("/", headers=HTML).text
    return page.partition('name="csrf-token" content="')[2].partition('"')[0]


def test_pages_need_a_session_and_programs_still_get_json(service: Service) -> None:
    for path in PAGES:
        answer = service.nobody.get(path, headers=HTML)
        assert (answer.status_code, answer.headers["Location"]) == (303, f"/sign-in?next={path}")
    assert service.nobody.get("/jobs").status_code == 401
    with sign_in(service) as client:
        for path in PAGES:
            assert client.get(path, headers=HTML).headers["Content-Type"].startswith("text/html")
        assert client.get("/jobs").json() == {"items": [], "next": None}


def test_the_policy_allows_nothing_from_elsewhere(service: Service) -> None:
    with sign_in(service) as client:
        answer = client.get("/", headers=HTML)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert "<style" not in answer.text and "style=" not in answer.text and "onclick" not in answer.text
    for path in STATIC.iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            assert "http://" not in line.replace("http://www.w3.org", "") and "https://" not in line, path


def test_a_session_changes_things_only_with_its_token(service: Service, database: Database) -> None:
    add_ensemble(database, service.tenant_id)
    with sign_in(service) as client:
        for headers in ({}, {principals.CSRF_HEADER: "guess"}):
            answer = client.put("/budgets/loans", json={"limit": 5}, headers=headers)
            assert (answer.status_code, answer.json()["type"]) == (403, "/problems/role")
        right = {principals.CSRF_HEADER: token(client)}
        assert client.put("/budgets/loans", json={"limit": 5}, headers=right).json()["limit"] == 5


def test_another_site_signs_nobody_in(service: Service) -> None:
    headers = {"Origin": "https://elsewhere.example"}
    answer = service.nobody.post("/sign-in", data={"key": service.keys[Role.ADMIN]}, headers=headers)
    assert answer.status_code == 403 and not answer.cookies


@pytest.mark.parametrize("target", ["//elsewhere.example", "https://elsewhere.example", "/\\elsewhere", "jobs"])
def test_sign_in_leads_only_to_our_own_pages(service: Service, target: str) -> None:
    answer = service.nobody.post("/sign-in", data={"key": service.keys[Role.ADMIN], "next": target})
    assert answer.headers["Location"] == "/"
    service.nobody.cookies.clear()


def test_a_revoked_key_ends_its_sessions(service: Service) -> None:
    with sign_in(service, Role.CLIENT) as client:
        assert client.get("/jobs").status_code == 200
        (key,) = [one for one in service.admin.get("/keys").json()["items"] if one["role"] == "client"]
        assert service.admin.delete(f"/keys/{key['id']}").status_code == 204
        assert client.get("/jobs").status_code == 401


def test_signing_out_ends_the_session_wherever_its_cookie_is(service: Service) -> None:
    with sign_in(service) as other, sign_in(service) as client:
        copied = {principals.COOKIE: client.cookies[principals.COOKIE]}
        assert httpx.get(f"{service.server.url}/jobs", cookies=copied).status_code == 200
        for cookies in (copied, copied, {}, {principals.COOKIE: "no cookie of ours"}):
            answer = httpx.post(f"{service.server.url}/sign-out", cookies=cookies)
            assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in")
        answer = httpx.get(f"{service.server.url}/jobs", cookies=copied)
        assert (answer.status_code, answer.json()["detail"]) == (401, principals.OVER)
        assert other.get("/jobs").status_code == 200, "another session of the same key goes on"


def test_signing_out_ends_the_session_s_streams(
    service: Service, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "CHECK_SECONDS", 0.1)
    add_ensemble(database, service.tenant_id)
    with sign_in(service) as client, listening(client, "/dashboard/budget-events") as lines:
        cookies = {principals.COOKIE: client.cookies[principals.COOKIE]}
        assert httpx.post(f"{service.server.url}/sign-out", cookies=cookies).status_code == 303
        wait_for_the_end(lines)


def test_a_session_ends_and_cannot_be_forged(service: Service, database: Database) -> None:
    keyring, now = service.resources.keyring, utc_now()
    row = service.admin.get("/keys").json()["items"][0]
    principal = Principal(service.tenant_id, Role.ADMIN, row["id"])
    cookie = principals.begin_session(keyring, principal, now)
    assert principals.resume_session(database, keyring, cookie, now).tenant_id == service.tenant_id
    credential = keyring.encrypt("credential of a bank")
    for forged, moment in ((cookie, now + principals.LIFETIME), (cookie[:-6] + "AAAA==", now), (credential, now)):
        with pytest.raises(AuthenticationError):
            principals.resume_session(database, keyring, forged, moment + timedelta(seconds=1))


def test_a_viewer_sees_no_keys(service: Service) -> None:
    with sign_in(service, Role.VIEWER) as client:
        answer = client.get("/keys", headers=HTML)
        assert answer.status_code == 403 and "Only an admin key" in answer.text
        assert 'href="/keys"' not in answer.text


def test_another_tenants_figures_are_not_there(service: Service, database: Database) -> None:
    add_ensemble(database, service.tenant_id)
    for path in ("/dashboard/figures/loans", "/dashboard/ledger/loans"):
        assert service.stranger.get(path).status_code == 404
        assert service.nobody.get(path).status_code == 401


def test_assets_are_kept_for_ever_under_their_hash(service: Service) -> None:
    page = service.nobody.get("/sign-in").text
    address = page.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
    for asset, kind in ((address, "text/css"), (asset_url("plotly.min.js"), "text/javascript")):
        answer = service.nobody.get(asset)
        assert "immutable" in answer.headers["Cache-Control"] and answer.headers["Content-Type"].startswith(kind)
        assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == ("gzip", "Accept-Encoding")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        plain = service.nobody.get(asset, headers={"Accept-Encoding": "identity"})
        assert "Content-Encoding" not in plain.headers and plain.content == answer.content
    for nothing in ("/assets/0000/dashboard.css", address.replace("dashboard", "nothing")):
        answer = service.nobody.get(nothing)
        assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/problem+json")
        assert "Cache-Control" not in answer.headers


def test_behind_a_proxy_with_tls_the_cookie_is_a_secure_one(service: Service) -> None:
    """The service itself hears http only; the browser names the page that it signs in from."""
    host = httpx.URL(service.server.url).netloc.decode()
    with client_of(service.server.url, None) as client:
        for scheme, secure in (("http", False), ("https", True)):
            headers = {"Origin": f"{scheme}://{host}"}
            answer = client.post("/sign-in", data={"key": service.keys[Role.ADMIN]}, headers=headers)
            assert ("Secure" in answer.headers["Set-Cookie"]) == secure


@pytest.fixture
def guesses(service: Service) -> Iterator[list[float]]:
    """The clock of the limit on wrong keys, which is this test's own."""
    now = [0.0]
    service.server.app.state.guesses = principals.Guesses(lambda: now[0])
    yield now
    service.server.app.state.guesses = principals.Guesses()


def guess(client: httpx.Client, key: str) -> httpx.Response:
    return client.post("/sign-in", data={"key": key})


def test_guessing_a_key_is_slow(service: Service, guesses: list[float]) -> None:
    """300 guesses took 7 seconds. A right key is not looked at either, so that a guess tells nothing."""
    with sign_in(service) as known, client_of(service.server.url, None) as stranger:
        for number in range(principals.MOST_WRONG):
            assert guess(stranger, f"rk_guess{number}").status_code == 401
        for key in ("rk_guess", service.keys[Role.ADMIN]):
            refused = guess(stranger, key)
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "61")
            assert "Try again in 61 seconds" in refused.text
        assert known.get("/jobs").status_code == stranger.get("/jobs", headers=bearer(service)).status_code == 200
        known.cookies.delete(principals.COOKIE)
        assert guess(known, service.keys[Role.ADMIN]).status_code == 303, "who signed in before is not locked out"
        guesses[0] = principals.WINDOW_SECONDS
        assert guess(stranger, service.keys[Role.ADMIN]).status_code == 303


def test_guesses_that_come_at_once_are_counted_one_after_the_other(service: Service, guesses: list[float]) -> None:
    """All of them were let in while none had been found wrong yet."""
    most = principals.MOST_WRONG
    with client_of(service.server.url, None) as stranger, ThreadPoolExecutor(3 * most) as threads:
        answers = list(threads.map(lambda number: guess(stranger, f"rk_guess{number}").status_code, range(3 * most)))
        assert (answers.count(401), answers.count(429)) == (most, 2 * most)


def test_right_keys_are_no_guesses(service: Service, guesses: list[float]) -> None:
    with client_of(service.server.url, None) as stranger:
        for _ in range(principals.MOST_WRONG + 1):
            assert guess(stranger, service.keys[Role.ADMIN]).status_code == 303
            stranger.cookies.clear()


def bearer(service: Service) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.keys[Role.ADMIN]}"}


def test_many_addresses_together_have_a_limit_too(service: Service) -> None:
    guesses, keyring = principals.Guesses(lambda: 0.0), service.resources.keyring
    places = [principals.place_of(keyring, "", f"10.0.{number // 250}.{number % 250}") for number in range(250)]
    tried = 0
    for place, known in places:
        if not guesses.wait(place, known):
            guesses.count(place)
            tried += 1
    assert tried == principals.MOST_WRONG_IN_ALL
    holder = Principal(service.tenant_id, Role.ADMIN, UUID(int=7))
    device = principals.place_of(keyring, principals.remember_device(keyring, holder), "10.0.0.1")
    assert device == (str(holder.key_id), True) and guesses.wait(*device) == 0
    assert principals.place_of(keyring, keyring.encrypt("session x"), "10.0.0.1") == ("10.0.0.1", False)
    assert len({principals.place_of(keyring, "", f"2001:db8::{number}") for number in range(9)}) == 1


def test_the_page_of_the_calls_has_a_policy_as_well(service: Service) -> None:
    policy = service.nobody.get("/docs").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self' 'sha256-" in policy and "http" not in policy
