"""What holds for every request: ids, logs, limits, and problems for whatever cannot be read."""

import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from structlog.testing import capture_logs

from tests.app.api.conftest import Service


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
    return socket.create_connection((url.host, url.port or 80), timeout=30)


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
    answer = service.client.post("/train", content=body, headers={"Content-Type": "application/json"})
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
        return service.client.post("/train", content=body, headers=as_json)

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
        end = time.monotonic() + 30
        # The answer leaves before its line is written.
        while not any(line.get("request_id") == "find-me" for line in lines) and time.monotonic() < end:
            time.sleep(0.01)
    line = next(line for line in lines if line.get("request_id") == "find-me")
    assert (line["method"], line["path"], line["status"]) == ("DELETE", "/keys/{key_id}", 404)
    assert line["tenant"] == service.tenant_id and line["ms"] > 0
    assert not any(key in str(lines) for key in service.keys.values())
