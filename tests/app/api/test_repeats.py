"""Idempotency-Key: every POST happens once, also when its process is killed between any two of its steps."""

import multiprocessing
import os
import signal
import time
from typing import Any
from uuid import UUID, uuid4

import anyio
import httpx
import pytest
from sqlalchemy import select

from app import idempotency
from app.api import keys
from app.db.engine import Database, open_database
from app.db.tables import Idempotency, Role
from app.main import create_app
from app.settings import Settings
from tests.app.api.conftest import Service
from tests.app.api.rows import SCHEMA, add_ensemble, publish
from tests.app.api.test_datasets import csv, upload
from tests.fakes.service import Bell, SilentExplainer
from tests.patience import BOUND

CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload([__name__])
LEASE_SECONDS = 1


def kill_before(*order: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DeadlyBell(Bell):
    """Nobody hears it."""

    def wake(self, job_id: UUID) -> None:
        kill_before()


def ask_and_die(settings: Settings, step: str, request: dict[str, Any]) -> None:
    """The service in a process that ends at one step of the request as `kill -9` would end it."""
    bell = DeadlyBell() if step == "wake" else Bell()
    if step != "wake":
        setattr(idempotency, step, kill_before)
    app = create_app(settings, open_database(settings.database), SilentExplainer(), bell)

    async def ask() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
            await http.request("POST", **request)

    anyio.run(ask)


def killed_at(service: Service, step: str, request: dict[str, Any]) -> None:
    settings = service.resources.settings.model_copy(update={"idempotency_open_seconds": LEASE_SECONDS})
    child = CHILDREN.Process(target=ask_and_die, args=(settings, step, request))
    child.start()
    child.join(BOUND)
    assert child.exitcode == -signal.SIGKILL, f"{step} was not reached"


def request_to(service: Service, database: Database, path: str) -> dict[str, Any]:
    """A request that makes one item of a list, under a new key."""
    sent: dict[str, Any] = {"url": path, "headers": {"Idempotency-Key": uuid4().hex}}
    sent["headers"]["Authorization"] = f"Bearer {service.keys[Role.ADMIN]}"
    match path:
        case "/datasets":
            return sent | {"files": {"file": ("loans.csv", csv())}, "data": {"label": "approved"}}
        case "/train":
            dataset = upload(service.admin, csv()).json()["id"]
            return sent | {"json": {"model": "loans", "dataset": dataset}}
        case "/explain":
            publish(database, service.tenant_id, add_ensemble(database, service.tenant_id))
            return sent | {"json": {"model": "loans", "records": [{"income": 1}], "target": "yes"}}
        case _:
            return sent | {"json": {"name": "mine"}}


LISTS = {"/train": "/jobs", "/explain": "/explanations"}


@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("/train", "finish_use"),
        ("/train", "wake"),
        ("/keys", "finish_use"),
        ("/datasets", "finish_use"),
        ("/explain", "finish_use"),
    ],
)
def test_a_killed_request_is_sent_again_and_happens_once(
    service: Service, database: Database, path: str, step: str
) -> None:
    """`finish_use`: the work is done, its answer is not kept. `wake`: both are, and nobody was answered."""
    request = request_to(service, database, path)
    before = len(service.admin.get(LISTS.get(path, path)).json()["items"])
    killed_at(service, step, request)
    answer = service.admin.request("POST", **request)
    if path == "/explain":
        # It may have asked the lender's models: its key is held until its process has given no sign of life.
        end = time.monotonic() + LEASE_SECONDS + BOUND
        while answer.status_code == 409 and time.monotonic() < end:
            time.sleep(0.1)
            answer = service.admin.request("POST", **request)
    assert answer.is_success, answer.text
    assert (answer.headers.get("Idempotent-Replayed") == "true") == (step == "wake")
    again = service.admin.request("POST", **request)
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (answer.json(), "true")
    assert len(service.admin.get(LISTS.get(path, path)).json()["items"]) == before + 1


def test_every_post_is_answered_once_a_key(service: Service, database: Database) -> None:
    version_id = publish(database, service.tenant_id, add_ensemble(database, service.tenant_id))
    endpoint = {"url": f"http://127.0.0.1:{service.server.lender.port}", "model": "m", "members": ["a"]}
    scores = {"name": "scores", "version": "1", "schema": SCHEMA, "endpoints": [endpoint], "budget": {"limit": 9}}
    key = {"Idempotency-Key": "k"}
    for path, body in (
        ("/models/loans/activate", {"version": 1}),
        ("/ensembles", scores),
        ("/budgets/scores/corrections", {"queries": 1, "reason": "for once"}),
        ("/ensembles/loans/predict", {"records": [{"income": 1}]}),
        ("/v1/models/loans:explain", {"instances": [{"income": 1}], "target": "yes"}),
    ):
        first, again = (service.admin.post(path, json=body, headers=key) for _ in range(2))
        assert first.is_success and first.json() == again.json(), (path, first.text, again.text)
        assert "Idempotent-Replayed" not in first.headers and again.headers["Idempotent-Replayed"] == "true", path
        assert service.admin.post(path, json=body | {"seed": 1}, headers=key).status_code == 422, path
    assert version_id is not None
    assert len([task for task in service.server.explainer.verified if task.version_id == version_id]) == 1


def test_the_same_file_under_a_key_is_one_data_set(service: Service) -> None:
    """The form's own bytes differ each time; another file, or another label, is another request."""
    first, again = (
        service.admin.post("/datasets", files={"file": ("a.csv", csv())}, headers={"Idempotency-Key": "k"})
        for _ in range(2)
    )
    assert (first.status_code, again.json(), again.headers["Idempotent-Replayed"]) == (201, first.json(), "true")
    for files, data in (({"file": ("a.csv", csv() * 2)}, {}), ({"file": ("a.csv", csv())}, {"label": "approved"})):
        other = service.admin.post("/datasets", files=files, data=data, headers={"Idempotency-Key": "k"})
        assert other.status_code == 422, other.text
    assert len(service.admin.get("/datasets").json()["items"]) == 1


def test_a_key_that_is_made_under_a_key_is_told_again_for_a_while(
    service: Service, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, again = (
        service.admin.post("/keys", json={"name": "mine"}, headers={"Idempotency-Key": "k"}) for _ in range(2)
    )
    assert made.json() == again.json()
    with database.reading() as connection:
        mine = select(Idempotency.response).where(Idempotency.tenant_id == service.tenant_id)
        kept = str(connection.execute(mine).scalar_one())
    assert made.json()["key"] not in kept and "rk_" not in kept
    monkeypatch.setattr(keys, "SHOWN_SECONDS", -1.0)
    late = service.admin.post("/keys", json={"name": "mine"}, headers={"Idempotency-Key": "k"})
    assert (late.status_code, made.json()["id"] in late.json()["detail"]) == (409, True)
    assert made.json()["key"] not in late.text
