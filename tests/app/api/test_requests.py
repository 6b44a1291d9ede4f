"""What holds for every request: ids, logs, limits, and problems for whatever cannot be read."""

import asyncio
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from structlog.testing import capture_logs

from app.api.middleware import BodyLimit
from app.db.tables import Role
from app.main import create_app
from tests.app.api.conftest import Service
from tests.fakes.service import Bell, SilentExplainer
from tests.patience import BOUND, wait_until


def problem(answer: httpx.Response) -> str:
    """The word of the problem; its form is checked."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["instance"] == answer.headers["X-Request-ID"]
    assert body["title"] and body["detail"]
    return str(body["type"]).removeprefix("/problems/")


def socket_to(service: Service) -> socket.socket:
    url = httpx.URL(service.server.url)
    return socket.create_connection((url.host, url.port or 80), timeout=BOUND)


def test_a_sane_request_id_is_kept_and_another_is_replaced(service: Service) -> None:
    assert service.viewer.get("/datasets", headers={"X-Request-ID": "loan-7.a"}).headers["X-Request-ID"] == "loan-7.a"
    for odd in ("x" * 101, "two words", '"quoted"'):
        assert service.viewer.get("/datasets", headers={"X-Request-ID": odd}).headers["X-Request-ID"] != odd


def test_what_the_framework_refuses_is_a_problem_too(service: Service) -> None:
    assert problem(service.admin.get("/nothing")) == "not-found"
    refused = service.admin.put("/keys", json={})
    assert (problem(refused), refused.status_code) == ("method", 405)
    assert {"GET", "POST"} <= set(refused.headers["Allow"].split(", "))


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"name": "x"',
        b'{"name": NaN}',
        b'{"name": "\\ud800"}',
        b'{"name": "\xed\xa0\x80"}',
        '{"name": "x"}'.encode("utf-16"),
        b'{"name": ' + b"9" * 5_000 + b"}",
    ],
    ids=range(9),
)
def test_a_body_that_is_no_json(service: Service, body: bytes) -> None:
    answer = service.admin.post("/keys", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, problem(answer)) == (400, "malformed")


def test_wrong_fields_are_named(service: Service) -> None:
    answer = service.admin.post("/keys", json={"name": "", "role": "king", "colour": "red"})
    assert (answer.status_code, problem(answer)) == (422, "validation")
    assert {error["field"] for error in answer.json()["errors"]} == {"name", "role", "colour"}
    assert service.admin.post("/keys", json={"name": "a\u0000b"}).status_code == 422


def test_numbers_without_end_are_refused_and_not_kept(service: Service) -> None:
    body = b'{"model": "m", "dataset": "0b9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11", "overrides": {"x": [1e999]}}'
    answer = service.analyst.post("/train", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "overrides")
    records = b'{"records": [{"income": 1e999}]}'
    answer = service.client.post("/ensembles/x/predict", content=records, headers={"Content-Type": "application/json"})
    assert answer.status_code == 404


def test_a_document_nested_without_end_is_refused_and_not_kept(service: Service) -> None:
    """Deeper than any answer could tell it again: the list of jobs would fail for ever."""
    as_json = {"Content-Type": "application/json"}

    def train(depth: int) -> httpx.Response:
        deep = b'{"a":' * depth + b"1" + b"}" * depth
        body = b'{"model": "m", "dataset": "0b9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11", "overrides": ' + deep + b"}"
        return service.analyst.post("/train", content=body, headers=as_json)

    assert (train(100).status_code, train(100).json()["errors"][0]["field"]) == (422, "overrides")
    assert (train(300).status_code, problem(train(300))) == (400, "malformed")
    records = b'{"records": [{"income": ' + b"[" * 100 + b"]" * 100 + b"}]}"
    assert service.client.post("/ensembles/x/predict", content=records, headers=as_json).status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"records": [1] * 30_000},
        {"records": [{f"{n}": [] for n in range(9_000)}]},
        {"records": [{f"{n}": 1 for n in range(10_001)}]},
        {"constraints": {"ranges": {f"{n}": 1 for n in range(1_001)}}},
        {"constraints": {"immutable": [0] * 9_000}},
    ],
    ids=["records", "values", "features", "ranges", "immutable"],
)
def test_a_body_that_is_wrong_all_over_is_told_so_once(service: Service, wrong: dict[str, object]) -> None:
    """Every error that is told takes a kilobyte and holds up everybody else."""
    answer = service.client.post("/explain", json={"model": "m", "target": "yes", "records": [{}]} | wrong)
    assert (answer.status_code, problem(answer)) == (422, "validation")
    assert len(answer.json()["errors"]) <= 10 and len(answer.content) < 5_000


def test_many_wrong_fields_are_not_all_told(service: Service) -> None:
    wrong = {"directions": {f"{n}": "sideways" for n in range(1_000)}}
    asked = {"model": "m", "target": "yes", "records": [{}], "constraints": wrong}
    answer = service.client.post("/explain", json=asked)
    assert (answer.status_code, len(answer.json()["errors"])) == (422, 100)


def test_an_announced_gigabyte_is_refused_before_it_is_read(service: Service) -> None:
    request = b"POST /keys HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\nAuthorization: Bearer x\r\n\r\n"
    with socket_to(service) as connection:
        connection.sendall(request)
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_without_a_length_is_stopped_at_the_limit(service: Service) -> None:
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 10_000
            yield b" " * 10_000

    try:
        answer = service.admin.post("/keys", content=pieces(), headers={"Content-Type": "application/json"})
        assert (answer.status_code, problem(answer)) == (413, "too-large")
    except httpx.WriteError:
        pass
    assert sent < 50_000_000, "it was not read to its end"


def test_a_compressed_body_is_not_opened(service: Service) -> None:
    answer = service.admin.post("/keys", content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, problem(answer)) == (415, "media-type")


def test_the_log_has_the_template_and_no_secret(service: Service) -> None:
    with capture_logs() as lines:
        service.admin.delete("/keys/7d9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11", headers={"X-Request-ID": "find-me"})
        end = time.monotonic() + BOUND
        # The answer leaves before its line is written.
        while not any(line.get("request_id") == "find-me" for line in lines) and time.monotonic() < end:
            time.sleep(0.01)
    line = next(line for line in lines if line.get("request_id") == "find-me")
    assert (line["method"], line["path"], line["status"]) == ("DELETE", "/keys/{key_id}", 404)
    assert line["tenant"] == service.tenant_id and line["ms"] > 0
    assert not any(key in str(lines) for key in service.keys.values())


@pytest.mark.parametrize("path", ["/train", "/explain", "/keys", "/ensembles", "/datasets"])
def test_a_body_of_one_who_may_not_is_not_read(service: Service, path: str) -> None:
    """The answer is there before the body is."""
    with socket_to(service) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.keys[Role.VIEWER]}\r\n"
        client.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 90000\r\n\r\n".encode())
        assert client.recv(12) == b"HTTP/1.1 403"


def test_who_hangs_up_in_the_middle_of_a_body_is_no_fault(service: Service) -> None:
    """Each was an error with its traceback: a crowd of them filled the log."""
    with capture_logs() as lines, socket_to(service) as client:
        head = f"POST /explain HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.keys[Role.CLIENT]}\r\n"
        client.sendall(f"{head}X-Request-ID: gone\r\nContent-Length: 90000\r\n\r\n".encode() + b"{")
        wait_until(lambda: service.resources.keys.remembered(service.keys[Role.CLIENT]))
        client.close()
        wait_until(lambda: any(line.get("request_id") == "gone" for line in lines))
    told = [(line["log_level"], line["event"], line["status"]) for line in lines if line.get("request_id") == "gone"]
    assert told == [("info", "request", 499)]


@pytest.mark.parametrize("route", ["/train", "/explain", "/keys", "/v1/models/m:explain"])
def test_unknown_fields_without_end_are_one_error(service: Service, route: str) -> None:
    body = {f"f{number}": 0 for number in range(9_000)} | {"k" * 10_000: 1}
    answer = service.admin.post(route, json=body)
    assert (answer.status_code, len(answer.json()["errors"])) == (422, 1)
    assert "it has 9001 fields" in answer.json()["detail"] and len(answer.content) < 1_000
    few = service.admin.post("/keys", json={"name": "a", "k" * 10_000: 1})
    assert (few.status_code, len(few.content) < 1_500) == (422, True)


def test_bodies_are_as_large_as_their_route_needs(service: Service) -> None:
    limit = BodyLimit(service.server.app, 16 * 2**20, 512 * 2**20)._limit
    assert limit("/datasets") == 512 * 2**20
    assert {limit(path) for path in ("/explain", "/v1/models/m:explain", "/ensembles/a/predict")} == {16 * 2**20}
    assert {limit(path) for path in ("/keys", "/train", "/budgets/a")} == {2**20}
    assert service.nobody.post("/sign-in", data={"key": "x" * 20_000}).status_code == 413


FLOODS = {
    "unknown": b'{"target": "yes", ' + b",".join(b'"f%d":0' % number for number in range(1_100_000)) + b"}",
    "nested": b'{"model": "m", "records": [' + b"[]," * 4_900_000 + b"[]]}",
    "records": b'{"model": "m", "target": "yes", "records": ['
    + b",".join(b"{%s}" % b",".join(b'"feature-%d": 12345' % one for one in range(500)) for _ in range(1_000))
    + b"]}",
    "wrong": b'{"model": "m", "target": "yes", "records": [' + b",".join([b"1"] * 590_000) + b"]}",
}


@pytest.mark.parametrize("shared_database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("flood", FLOODS)
def test_large_bodies_do_not_hold_up_the_event_loop(service: Service, flood: str) -> None:
    """Measured in processor time of the loop's thread: with whatever else the machine does, it is the same."""
    resources = service.resources
    settings = resources.settings.model_copy(update={"max_body_bytes": 16 * 2**20, "max_dataset_columns": 500})
    app = create_app(settings, resources.database, SilentExplainer(), Bell())
    content, headers = FLOODS[flood], {"Content-Type": "application/json"}

    async def ask() -> tuple[list[int], float]:
        transport, statuses = httpx.ASGITransport(app), []
        async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=BOUND) as http:
            began = time.thread_time()
            for role in (Role.VIEWER, Role.CLIENT):
                sent = headers | {"Authorization": f"Bearer {service.keys[role]}"}
                for path in ("/explain", "/ensembles/x/predict", "/train"):
                    statuses.append((await http.post(path, content=content, headers=sent)).status_code)
            return statuses, (time.thread_time() - began) / len(statuses)

    statuses, seconds = asyncio.run(ask())
    assert statuses[:2] == [403, 403] and set(statuses[2:]) <= {403, 404, 413, 422}, statuses
    assert seconds < 0.25, f"{seconds:.2f} s of the event loop a request"


@pytest.mark.parametrize(
    "kind", [None, "application/x-www-form-urlencoded", "text/plain; charset=utf-8", "application/vnd.lender+json"]
)
def test_a_body_without_a_type_of_its_own_is_json(service: Service, kind: str | None) -> None:
    """`curl -d` calls every body a form: the answer was a puzzle about dictionaries."""
    headers = {} if kind is None else {"Content-Type": kind}
    made = service.admin.post("/keys", content=b'{"name": "from curl"}', headers=headers)
    assert (made.status_code, made.json().get("name")) == (201, "from curl"), made.text
    broken = service.admin.post("/keys", content=b"name=from+curl", headers=headers)
    assert (broken.status_code, broken.json()["type"]) == (400, "/problems/malformed")
    assert "the body is not JSON" in broken.json()["detail"]


@pytest.mark.parametrize("kind", ["application/xml", "multipart/form-data; boundary=x"])
def test_a_body_of_another_type_is_told_to_be_json(service: Service, kind: str) -> None:
    answer = service.admin.post("/keys", content=b'{"name": "x"}', headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["type"]) == (415, "/problems/media-type")
    assert answer.json()["detail"].endswith("send JSON, with Content-Type: application/json")


def test_the_front_door_says_what_this_is(service: Service) -> None:
    answer = service.nobody.get("/")
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/plain")
    assert answer.text.startswith("This is recourse") and "/docs" in answer.text
    browser = service.nobody.get("/", headers={"Accept": "text/html"})
    assert (browser.status_code, browser.headers["Location"]) == (303, "/sign-in?next=/")
