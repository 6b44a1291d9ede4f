"""The client against a service over HTTP: typed answers, errors as sentences, events until the job has ended."""

from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from uuid import UUID, uuid4

import pytest

from app.commands.explain import KEY_VARIABLE
from app.db.engine import Database
from app.db.tables import Role
from recourse_client.client import ClientError, RecourseClient, read_events
from tests.app.api.conftest import Service, database, server, service, shared_database_url
from tests.app.api.rows import add_ensemble, add_job, publish
from tests.app.api.test_datasets import LOANS, csv
from tests.servers.command_line import recourse

__all__ = ["database", "server", "service", "shared_database_url"]


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
        with pytest.raises(ClientError, match="role is viewer, but this needs client"):
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
    assert "check that the service runs there" in recourse(*asked).complaint
