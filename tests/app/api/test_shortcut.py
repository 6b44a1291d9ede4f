"""The shortcut of POST /explain: who takes it, and that nobody can tell by the answer."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from app.api.shortcut import ExplainShortcut
from app.db.tables import Role, utc_now
from app.ensembles import directory
from tests.app.api.conftest import Service
from tests.app.conftest import Customer
from tests.app.explain.test_service import publish

JSON = {"Content-Type": "application/json"}
USUAL = {"model": "loans", "records": [{"income": 1200.5, "purpose": "car"}], "target": "yes"}


@pytest.fixture
def lender(service: Service) -> Service:
    """With a model, and with keys that the service has looked up."""
    database = service.resources.database
    with database.writing() as connection:
        ensemble_id = directory.add_ensemble(connection, service.tenant_id, "loans", "1", utc_now())
    publish(database, Customer(service.tenant_id, ensemble_id))
    for known in (service.client, service.viewer):
        assert known.get("/models").status_code == 200
    return service


def in_parts(body: bytes) -> Iterator[bytes]:
    """A body without an announced length, which the shortcut leaves to the framework."""
    yield body


def without_ids(answer: httpx.Response) -> tuple[int, str, Any]:
    text = re.sub(r'"(id|request_id|instance)":\s*"[^"]*"', r'"\1":""', answer.text)
    return answer.status_code, answer.headers["Content-Type"], json.loads(text)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (json.dumps(USUAL), 200),
        (json.dumps(USUAL | {"model": "boats"}), 404),
        (json.dumps(USUAL | {"records": []}), 422),
        (json.dumps(USUAL | {"records": [{"income": [1]}]}), 422),
        (json.dumps(USUAL | {"records": [{}] * 1001}), 413),
        (json.dumps(USUAL | {"colour": "red"}), 422),
        (json.dumps(USUAL)[:-1], 400),
        ('{"model": NaN}', 400),
        ('{"model": "\\ud800"}', 400),
        ("[" * 50_000, 400),
        ("", 422),
    ],
    ids=range(11),
)
def test_the_answer_is_that_of_the_framework(lender: Service, body: str, status: int) -> None:
    usual = lender.client.post("/explain", content=body.encode(), headers=JSON)
    other = lender.client.post("/explain", content=in_parts(body.encode()), headers=JSON)
    assert usual.status_code == status
    assert without_ids(usual) == without_ids(other)
    assert usual.headers.keys() == other.headers.keys()


def test_who_takes_it(lender: Service) -> None:
    """The framework is a stand-in here, which tells what reached it."""
    keys = {role: f"Bearer {key}" for role, key in lender.keys.items()}
    body, headers = json.dumps(USUAL).encode(), JSON | {"Authorization": keys[Role.CLIENT]}
    reached: list[bytes] = []

    async def framework(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(await Request(scope, receive).body())
        await PlainTextResponse("framework")(scope, receive, send)

    shortcut = ExplainShortcut(framework)

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = lender.server.app
        await shortcut(scope, receive, send)

    async def parts() -> AsyncIterator[bytes]:
        yield body[:10]
        yield body[10:]

    async def taken(
        method: str = "POST", path: str = "/explain", content: bytes | AsyncIterator[bytes] = body, **changes: str
    ) -> bool:
        reached.clear()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(served), base_url="http://here") as client:
            sent = headers | {name.replace("_", "-"): value for name, value in changes.items()}
            answer = await client.request(method, path, content=content, headers=sent)
        assert answer.status_code == 200
        # Whatever was read before it was left to the framework is there again.
        assert reached in ([], [body if content is not BROKEN else BROKEN])
        return not reached

    async def test() -> None:
        assert await taken()
        assert await taken(Content_Type="Application/JSON; charset=utf-8")
        assert not await taken(path="/explanations")
        assert not await taken(method="PUT")
        assert not await taken(content=parts())
        assert not await taken(content=BROKEN)
        assert not await taken(Content_Type="text/plain")
        assert not await taken(Idempotency_Key="once")
        assert not await taken(Authorization="Bearer rk_unknown")
        assert not await taken(Authorization="Basic abc")
        assert not await taken(Authorization=keys[Role.VIEWER])

    asyncio.run(test())


BROKEN = b'{"model": "loans", "records": 7}'


def test_it_is_logged_counted_and_refused_like_any_other(lender: Service) -> None:
    with capture_logs() as lines:
        assert lender.client.post("/explain", json=USUAL, headers={"X-Request-ID": "loan-9"}).status_code == 200
        refused = lender.client.post("/explain", json=USUAL | {"model": "boats"})
        # A line is written when its answer is out: those of the requests before this one are there by now.
        lender.client.get("/livez")
    told = [line for line in lines if line.get("path") not in ("/livez", "/models")]
    assert {line["event"] for line in told} == {"request"}, "a refusal is no failure of ours"
    assert [(line["path"], line["status"], line["tenant"]) for line in told] == [
        ("/explain", 200, lender.tenant_id),
        ("/explain", 404, lender.tenant_id),
    ]
    assert told[0]["request_id"] == "loan-9"
    assert refused.json()["instance"] == refused.headers["X-Request-ID"] == told[1]["request_id"]
    metrics = lender.admin.get("/metrics").text
    assert re.search(r'recourse_request_seconds_count\{method="POST",route="/explain",status="200"\} \d', metrics)
