"""Streams have a limit, hold nothing while nobody reads, and end when their key is revoked (auth/test_sessions.py)."""

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event

import httpx
import pytest
from sqlalchemy import insert, select

from app import concurrency
from app.db.engine import Database
from app.db.ledger_tables import Account, EntryType, LedgerEntry
from app.db.tables import Role, utc_now
from app.ensembles import service as ensembles
from app.resources import STREAM_THREADS
from tests.app.api.conftest import Service
from tests.app.api.rows import add_ensemble, add_job
from tests.patience import BOUND, wait_until


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
        assert time.monotonic() - began < BOUND, "the stream goes on"


def test_a_tenant_has_so_many_streams_and_no_more(service: Service, paths: tuple[str, str]) -> None:
    with ExitStack() as stack:
        for path in (paths[0], paths[1], paths[0]):
            stack.enter_context(listening(service.viewer, path))
        for path in paths:
            answer = service.admin.get(path)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert answer.json()["detail"].startswith("3 streams are open already")
        with listening(service.stranger, paths[1]):
            pass
    end = time.monotonic() + BOUND
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


ENTRIES = 60_000
"""About 5 MB as CSV: more than the system's buffers between the two ends hold."""
SOCKETS = 25
"""More than the connections to the database that all requests share."""


def add_entries(service: Service, database: Database) -> None:
    """A long ledger, as years of work would write it."""
    add_ensemble(database, service.tenant_id)
    service.admin.put("/budgets/loans", json={"limit": 50})
    with database.writing() as connection:
        account = connection.execute(select(Account.id).where(Account.tenant_id == service.tenant_id)).scalar_one()
        one = {"tenant_id": service.tenant_id, "account_id": account, "kind": EntryType.LIMIT.value, "at": utc_now()}
        one |= dict.fromkeys(("query_limit", "reserved", "dispatched", "used"), 0)
        connection.execute(insert(LedgerEntry), [one] * ENTRIES)


@contextmanager
def asking_and_not_reading(service: Service, path: str) -> Iterator[socket.socket]:
    url, key = httpx.URL(service.server.url), service.keys[Role.VIEWER]
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(60)
        client.connect((url.host, url.port))
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
        yield client


def test_readers_who_do_not_read_stop_nobody(
    service: Service, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_entries(service, database)
    monkeypatch.setattr(service.resources.streams, "_most", SOCKETS)
    with ExitStack() as stack:
        for _ in range(SOCKETS):
            waiting = stack.enter_context(asking_and_not_reading(service, "/budgets/loans/ledger?format=csv"))
            assert waiting.recv(12) == b"HTTP/1.1 200"
        for client, path in ((service.stranger, "/jobs"), (service.viewer, "/budgets"), (service.nobody, "/readyz")):
            assert client.get(path, timeout=BOUND).status_code == 200, path
        assert service.admin.put("/budgets/loans", json={"limit": 51}, timeout=BOUND).status_code == 200
        refused = service.viewer.get("/budgets/loans/ledger", params={"format": "csv"})
        assert (refused.status_code, "streams are open" in refused.text) == (503, True)


def test_what_is_written_while_it_is_sent_is_not_in_the_export(service: Service, database: Database) -> None:
    """It ends where it began, however much is written meanwhile."""
    add_entries(service, database)
    with service.viewer.stream("GET", "/budgets/loans/ledger", params={"format": "csv"}) as answer:
        lines = answer.iter_lines()
        next(lines)
        service.admin.put("/budgets/loans", json={"limit": 52})
        assert sum(1 for _ in lines) == ENTRIES + 2


def test_a_crowd_of_readers_holds_few_threads(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each held one of the threads that everybody needs, and all of them together the processor."""
    making, most, go = 0, 0, Event()

    def slowly(database: Database, tenant_id: int, name: str) -> Iterator[str]:
        nonlocal making, most
        if tenant_id == service.tenant_id:
            making += 1
            most = max(most, making)
            assert go.wait(BOUND)
            making -= 1
        yield "id\n"

    monkeypatch.setattr(ensembles, "export_entries", slowly)
    monkeypatch.setattr(service.resources.streams, "_most", SOCKETS)
    path = "/budgets/loans/ledger?format=csv"
    with ThreadPoolExecutor(SOCKETS) as readers:
        answers = [readers.submit(service.viewer.get, path, timeout=BOUND) for _ in range(SOCKETS)]
        try:
            wait_until(lambda: service.resources.streams._open[service.tenant_id] == SOCKETS)
            assert service.stranger.get(path, timeout=BOUND).text == "id\n"
        finally:
            go.set()
        assert {answer.result().text for answer in answers} == {"id\n"}
    assert most <= STREAM_THREADS // 2


def test_live_streams_are_read_by_the_same_threads(
    service: Service, paths: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = service.resources.stream_threads
    used, run = list[int](), threads.run

    async def noted(tenant_id: int, work: Callable[[], object]) -> object:
        used.append(tenant_id)
        return await run(tenant_id, work)

    monkeypatch.setattr(threads, "run", noted)
    monkeypatch.setattr(concurrency, "CHECK_SECONDS", 0.0)
    for path in paths:
        with listening(service.viewer, path):
            assert set(used) == {service.tenant_id} and len(used) >= 2, path
        used.clear()
