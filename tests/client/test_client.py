"""The client against a service over HTTP: typed answers, errors as sentences, events until the job has ended."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.commands.explain import KEY_VARIABLE
from app.db.engine import Database
from app.db.tables import Role
from recourse_client import AsyncRecourseClient, ClientError, RecourseClient, types
from recourse_client.client import read_events
from recourse_client.types import Typed
from tests.app.api.conftest import Service, database, server, service, shared_database_url
from tests.app.api.rows import add_ensemble, add_job, publish
from tests.app.api.test_datasets import LOANS, csv
from tests.app.conftest import postgres_server, postgres_template, sqlite_template
from tests.servers.command_line import recourse

__all__ = [
    "database",
    "postgres_server",
    "postgres_template",
    "server",
    "service",
    "shared_database_url",
    "sqlite_template",
]


def open_client(service: Service, role: Role = Role.ADMIN) -> RecourseClient:
    return RecourseClient(service.server.url, service.keys[role], seconds=60.0)


def test_upload_train_follow_cancel(service: Service, tmp_path: Path) -> None:
    (tmp_path / "loans.csv").write_bytes(csv())
    with open_client(service) as client:
        uploaded = client.upload(tmp_path / "loans.csv", "approved")
        assert uploaded.name == "loans.csv" and uploaded.rows > 0
        job = client.train("loans", uploaded.id, {"effort": 0.1})
        assert (job.model, job.state) == ("loans", "queued")
        assert client.cancel(job.id).state == "cancelled"
        states = [event.data["state"] for event in client.follow(job.id) if event.kind == "state"]
        assert states == ["queued", "cancelled"]


def test_columns_can_be_said_to_be_categories(service: Service, tmp_path: Path) -> None:
    (tmp_path / "loans.csv").write_bytes(csv(LOANS.assign(month=["2024-01-01", "2024-02-01"] * 20)))
    with open_client(service) as client:
        with pytest.raises(ClientError, match="'month' holds dates"):
            client.upload(tmp_path / "loans.csv", "approved")
        assert client.upload(tmp_path / "loans.csv", "approved", ["month", "housing"]).rows == 40


def test_budgets_and_models(service: Service, database: Database) -> None:
    publish(database, service.tenant_id, add_ensemble(database, service.tenant_id))
    with open_client(service) as client:
        assert client.set_budget("loans", 50).remaining == 50
        (budget,) = client.budgets().items
        assert (budget.ensemble, budget.limit, budget.used) == ("loans", 50, 0)
        assert [model.name for model in client.models().items] == ["loans"]
        assert client.schema("loans")["features"]
        assert client.ready()


def test_what_the_service_says_is_the_error(service: Service, database: Database) -> None:
    job_id: UUID = add_job(database, service.tenant_id)
    with open_client(service, Role.VIEWER) as client:
        with pytest.raises(ClientError, match="role is viewer, but this needs analyst"):
            client.cancel(job_id)
        with pytest.raises(ClientError, match="there is no job"):
            next(client.follow(uuid4()))


def test_nobody_there_is_told() -> None:
    with RecourseClient("http://127.0.0.1:9", "rk_x", seconds=5.0) as client:
        assert not client.ready()
        with pytest.raises(ClientError, match="check that the service runs there"):
            client.budgets()


class Stranger(BaseHTTPRequestHandler):
    """Answers every request with `body`."""

    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def stranger() -> Iterator[str]:
    """The address of a server that is not recourse."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"", b'{"other": 1}', b"[]"])
def test_an_answer_of_another_program_is_told(body: bytes, stranger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stranger, "body", body)
    with RecourseClient(stranger, "rk_x", seconds=5.0) as client:
        calls: list[Callable[[], object]] = [
            client.models,
            partial(client.schema, "loans"),
            partial(client.explain, "loans", [{"age": 44}], "approved"),
            partial(client.job, uuid4()),
        ]
        for call in calls:
            with pytest.raises(ClientError, match="answered 200, but not as recourse does"):
                call()


def test_a_record_that_is_no_json_is_told() -> None:
    client = RecourseClient("http://127.0.0.1:9", "rk_x", seconds=5.0)
    with client, pytest.raises(ClientError, match="None for a missing value"):
        client.explain("loans", [{"age": float("nan")}], "approved")


@pytest.mark.parametrize("key", ["rk_secret\n", "rk_secr\u00e9t"])
def test_a_key_that_cannot_be_sent_is_told_without_showing_it(key: str) -> None:
    with pytest.raises(ClientError, match="the key holds a character") as told:
        RecourseClient("http://127.0.0.1:9", key).models()
    assert "rk_" not in str(told.value)


def test_an_address_that_is_none_is_told() -> None:
    with pytest.raises(ClientError, match="is no address"):
        RecourseClient("http://127.0.0.1:port", "rk_x")


def test_events_are_read_with_comments_between() -> None:
    lines = [": ping", "", "id: 7", "event: progress", 'data: {"step": 1}', "", 'data: {"a": 2}', ""]
    found = list(read_events(iter(lines)))
    assert [(event.id, event.kind, event.data) for event in found] == [
        ("7", "progress", {"step": 1}),
        ("", "message", {"a": 2}),
    ]


@pytest.mark.parametrize("option", ["--device=cuda"])
def test_the_command_line_does_not_drop_an_option_without_a_word(option: str) -> None:
    outcome = recourse("explain", "loans", "no.csv", "--target", "approved", "--url", "http://127.0.0.1:9", option)
    assert option.partition("=")[0] in outcome.complaint


def test_the_command_line_needs_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    (tmp_path / "x.csv").write_text("age\n44\n")
    asked = ("explain", "loans", tmp_path / "x.csv", "--target", "approved", "--url", "http://127.0.0.1:9")
    assert "set RECOURSE_KEY" in recourse(*asked).complaint
    monkeypatch.setenv(KEY_VARIABLE, "rk_x")
    assert "check that the service runs there" in recourse(*asked).err


KINDS: dict[str, type[Typed]] = {
    "ActionAnswer": types.Action,
    "BindingAnswer": types.Binding,
    "BudgetAnswer": types.Budget,
    "ChangeAnswer": types.Change,
    "CounterfactualAnswer": types.Counterfactual,
    "DatasetAnswer": types.DataSet,
    "DecisionAnswer": types.Decision,
    "DiagnosisAnswer": types.Diagnosis,
    "EnsembleAnswer": types.Ensemble,
    "EntryAnswer": types.Entry,
    "ExplainAnswerBody": types.Answer,
    "ExplanationAnswer": types.Explanation,
    "ExplanationSummary": types.DecisionSummary,
    "JobAnswer": types.Job,
    "PolicyAnswer": types.ModelPolicy,
    "JobSummary": types.JobSummary,
    "KeyAnswer": types.Key,
    "ModelAnswer": types.Model,
    "ModelDetail": types.ModelVersions,
    "NewKeyAnswer": types.NewKey,
    "PartAnswer": types.Part,
    "PointAnswer": types.Point,
    "PredictAnswer": types.Predictions,
    "PredictionAnswer": types.Prediction,
    "ReadyAnswer": types.Readiness,
    "UsageAnswer": types.Usage,
    "UsagePointAnswer": types.UsagePoint,
    "VerificationAnswer": types.Verification,
    "VersionAnswer": types.Version,
    "VoteAnswer": types.Vote,
}
"""The client's type of each answer in the OpenAPI document."""
CALLS = {
    "explain": "explain",
    "list_explanations": "explanations",
    "show_explanation": "explanation",
    "verify_explanation": "verify",
    "upload_dataset": "upload",
    "list_datasets": "datasets",
    "show_dataset": "dataset",
    "train": "train",
    "list_jobs": "jobs",
    "show_job": "job",
    "cancel_job": "cancel",
    "follow_job": "follow",
    "list_models": "models",
    "show_model": "model",
    "show_policy": "policy",
    "activate_version": "activate",
    "register_ensemble": "register",
    "list_ensembles": "ensembles",
    "predict": "predict",
    "list_budgets": "budgets",
    "set_budget": "set_budget",
    "set_policy": "set_policy",
    "correct_budget": "correct_budget",
    "show_usage": "usage",
    "show_ledger": "ledger",
    "make_key": "make_key",
    "list_keys": "keys",
    "revoke_key": "revoke_key",
    "ready": "readiness",
    "metrics": "metrics",
}
"""The client's method for each operation."""
SAME = {"explain_kserve", "live", "oip_live", "oip_ready"}
"""Operations for other programs, which tell no more than those above."""


@pytest.fixture
def document(service: Service) -> dict[str, Any]:
    answer: dict[str, Any] = service.nobody.get("/openapi.json").json()
    return answer


def test_the_types_have_the_fields_of_the_openapi_document(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name, kind in KINDS.items():
        fields = {field.alias or own for own, field in kind.model_fields.items()}
        assert fields == set(schemas[name]["properties"]), name
    told = {name for name in schemas if name.endswith(("Answer", "AnswerBody", "Detail", "Summary"))}
    assert told == {*KINDS, "LiveAnswer"}


def test_every_operation_has_a_method_in_both_clients(document: dict[str, Any]) -> None:
    ids = {operation["operationId"] for path in document["paths"].values() for operation in path.values()}
    assert ids == {*CALLS, *SAME}
    for name in CALLS.values():
        assert getattr(RecourseClient, name).__doc__ and getattr(AsyncRecourseClient, name).__doc__, name


def test_all_calls_awaited_say_what_the_others_say(service: Service, database: Database, tmp_path: Path) -> None:
    publish(database, service.tenant_id, add_ensemble(database, service.tenant_id))
    (tmp_path / "loans.csv").write_bytes(csv())

    async def scenario() -> None:
        async with AsyncRecourseClient(service.server.url, service.keys[Role.ADMIN]) as client:
            with open_client(service) as waiting:
                uploaded = await client.upload(tmp_path / "loans.csv", "approved")
                assert uploaded == waiting.dataset(uploaded.id) == (await client.datasets()).items[0]
                job = await client.train("loans", uploaded.id, {"effort": 0.1}, idempotency_key="one")
                assert (await client.train("loans", uploaded.id, {"effort": 0.1}, "one")).id == job.id
                await client.cancel(job.id)
                events = [event async for event in client.follow(job.id)]
                assert events == list(waiting.follow(job.id)) and len(events) == 2
                assert await client.set_budget("loans", 50) == waiting.budgets().items[0]
                assert await client.schema("loans") == waiting.schema("loans")
                answer = await client.explain("loans", [{"income": 3}], "yes", {"k": 2}, "two")
                assert answer.explanations[0].status == "infeasible"
                kept = waiting.explanation(answer.explanations[0].id)
                assert kept.order["k"] == 2
                assert (await client.explanations(model="loans")).items[0].id == kept.id
                assert (await client.model("loans")).versions[0].number == 1
                assert (await client.activate("loans", 1)).active_version == 1
                assert (await client.predict("loans", [{"income": 3}])).charged == 1
                assert (await client.usage("loans", "day")).step == "day"
                assert (await client.correct_budget("loans", 2, "for once")).used == 2
                assert waiting.correct_budget("loans", -1, "in part", reverses=None).used == 1
                kinds = [entry.kind for entry in (await client.ledger("loans")).items]
                assert kinds == ["open", "limit", "correct", "correct"]
                assert (await client.ledger_csv("loans")).count("\n") == 5
                made = await client.make_key("another", "viewer")
                assert made.key.startswith("rk_") and made.id in [key.id for key in waiting.keys().items]
                await client.revoke_key(made.id)
                assert await client.ready() and waiting.readiness().ready
                assert "recourse_" in await client.metrics()
                with pytest.raises(ClientError, match="there is no explanation") as refused:
                    await client.verify(made.id)
                assert refused.value.status == 404

    asyncio.run(scenario())


def test_an_event_of_several_lines_is_one() -> None:
    (event,) = read_events(["event: log", 'data: {"text":', 'data: "a"}', "", ""])
    assert event.data == {"text": "a"}


def test_the_client_needs_httpx_and_pydantic_only() -> None:
    code = (
        "import sys\nfor name in ('app', 'models', 'worker', 'numpy', 'torch'): sys.modules[name] = None\n"
        "import recourse_client"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": "client"}, check=False)
    assert done.returncode == 0
