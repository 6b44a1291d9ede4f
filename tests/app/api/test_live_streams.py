"""Live streams have a limit, and end when their key is revoked; dashboard/test_sessions.py has those of sessions."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from app import concurrency
from app.db.engine import Database
from tests.app.api.conftest import Service
from tests.app.api.rows import add_ensemble, add_job

SOON = 20.0
"""Seconds in which a stream has to end; a few are enough where the machine is idle."""


@pytest.fixture
def paths(service: Service, database: Database) -> tuple[str, str]:
    """Both streams there are."""
    add_ensemble(database, service.tenant_id)
    return f"/jobs/{add_job(database, service.tenant_id)}/events", "/dashboard/budget-events"


@contextmanager
def listening(client: httpx.Client, path: str) -> Iterator[Iterator[str]]:
    """The lines of a stream that has begun."""
    with client.stream("GET", path) as stream:
        assert stream.status_code == 200, stream.read()
        lines = stream.iter_lines()
        next(lines)
        yield lines


def wait_for_the_end(lines: Iterator[str]) -> None:
    began = time.monotonic()
    for _ in lines:
        assert time.monotonic() - began < SOON, "the stream goes on"


def test_a_tenant_has_so_many_streams_and_no_more(service: Service, paths: tuple[str, str]) -> None:
    with ExitStack() as stack:
        for path in (paths[0], paths[1], paths[0]):
            stack.enter_context(listening(service.viewer, path))
        for path in paths:
            answer = service.admin.get(path)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert answer.json()["detail"].startswith("3 live streams are open already")
        with listening(service.stranger, paths[1]):
            pass
    end = time.monotonic() + SOON
    while True:
        with service.viewer.stream("GET", paths[0]) as again:
            if again.status_code == 200:
                break
        assert time.monotonic() < end, "the places of closed streams are not free again"


@pytest.mark.parametrize("which", [0, 1], ids=["job", "budgets"])
def test_a_revoked_key_ends_its_streams(
    service: Service, paths: tuple[str, str], which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "CHECK_SECONDS", 0.1)
    (key,) = [one for one in service.admin.get("/keys").json()["items"] if one["role"] == "viewer"]
    with listening(service.viewer, paths[which]) as lines:
        assert service.admin.delete(f"/keys/{key['id']}").status_code == 204
        wait_for_the_end(lines)


def test_a_good_key_s_stream_goes_on(service: Service, paths: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "CHECK_SECONDS", 0.0)
    with listening(service.viewer, paths[1]) as lines:
        time.sleep(1.5)
        assert service.admin.put("/budgets/loans", json={"limit": 77}).status_code == 200
        assert any('"limit":77' in line for line in lines)
