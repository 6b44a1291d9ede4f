"""The explainer as a process of its own: killed under load it is missed, but nothing is wrong or charged unseen."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from threading import Event
from uuid import UUID, uuid4

import httpx
import pytest
from pydantic import SecretStr

from app.auth import queries
from app.auth.service import add_tenant
from app.db.engine import open_database
from app.db.tables import utc_now
from app.ensembles import directory
from app.ensembles.directory import describe
from app.ensembles.endpoint import Endpoint, Layout
from app.errors import ConflictError, UnavailableError
from app.explain import remote
from app.explain.contract import ExplainRequest, ExplainTask, RobustnessBody
from app.explain.remote import RemoteExplainer
from app.ledger.chain import ChainKey
from app.ledger.ledger import Ledger
from app.main import create_app
from app.resources import Resources
from app.settings import Settings, environment_of
from tests.app.api.conftest import client
from tests.fakes.lending import APPROVED, Lending, make_lending
from tests.fakes.service import Bell
from tests.patience import BOUND, wait_until
from tests.published import Saved, publish, save_two
from tests.servers.http import serving
from tests.servers.postgres import new_database
from tests.worker.lender import MEMBERS, Lender, reachable
from tests.worker.lender import lending as lender_server

KEY = "between us"
KILLS = int(os.environ.get("RECOURSE_EXPLAINER_KILLS", "1"))
ANSWERS = 12
"""So many right answers are waited for before each kill, and after the last."""
LIMIT = 100_000
QUERIES = 6


@pytest.fixture(scope="module")
def lending() -> Lending:
    return make_lending()


@pytest.fixture(scope="module")
def saved(lending: Lending, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return save_two(lending, tmp_path_factory.mktemp("saved"))[0]


class Worker:
    """`python -m worker.explainer`, started and killed at will."""

    def __init__(self, settings: Settings) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._settings = settings
        self.process = self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "worker.explain_server", "--port", str(self.port)]
        self.process = subprocess.Popen(command, env=os.environ | environment_of(self._settings))
        wait_until(lambda: self.process.poll() is not None or self.answers("/readyz"))
        assert self.process.poll() is None, "the explainer did not start"
        return self.process

    def answers(self, path: str) -> bool:
        try:
            return httpx.get(self.url + path, timeout=60).status_code == 200
        except httpx.HTTPError:
            return False

    def end(self, by: signal.Signals) -> int:
        self.process.send_signal(by)
        return self.process.wait(timeout=BOUND)


class Site:
    """An API in this process, one worker in its own, and a lender that counts."""

    def __init__(self, url: str, resources: Resources, worker: Worker, lender: Lender, saved: Saved) -> None:
        self.resources, self.worker, self.lender = resources, worker, lender
        database, name = resources.database, uuid4().hex
        key = add_tenant(database, resources.keyring, name).text
        with database.writing() as connection:
            found = queries.find_tenant(connection, name)
            assert found is not None
            self.tenant_id = found
            self.ensemble_id = directory.add_ensemble(connection, found, "lender", "1", utc_now())
            endpoint = Endpoint(lender.url, "cards", MEMBERS, layout=Layout.MATRIX)
            schema = saved.model.encoder.schema.to_json()
            directory.describe_remote(connection, found, self.ensemble_id, "1", schema, [describe(endpoint)], None)
        resources.ledger.set_limit(self.tenant_id, self.ensemble_id, LIMIT)
        self.version_id: UUID = publish(database, resources.artifacts, found, "loans", saved, self.ensemble_id)
        self.client = client(url, key)

    def explain(self, lending: Lending, start: int, count: int = 2) -> httpx.Response:
        body = {
            "model": "loans",
            "records": (lending.refused * 3)[start : start + count],
            "target": APPROVED,
            "candidates": 6,
            "robustness": {"min_agreement": 1.0, "max_queries": QUERIES},
        }
        return self.client.post("/explain", json=body)

    def task(self, lending: Lending, max_queries: int = 0) -> ExplainTask:
        request = ExplainRequest(
            model="loans",
            records=lending.refused[:1],
            target=APPROVED,
            candidates=6,
            robustness=RobustnessBody(max_queries=max_queries),
        )
        return ExplainTask(request, self.tenant_id, self.version_id)

    @property
    def seen(self) -> int:
        return self.lender.seen.get("cards", 0)


@pytest.fixture(scope="module")
def site(
    postgres_server: str, postgres_template: str, saved: Saved, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with ExitStack() as stack:
        lender = stack.enter_context(lender_server())
        url = stack.enter_context(new_database(postgres_server, f"recourse_{uuid4().hex}", postgres_template))
        settings = Settings(
            var_dir=tmp_path_factory.mktemp("var"),
            database_url=SecretStr(url),
            worker_key=SecretStr(KEY),
            min_free_bytes=0,
            log_level="warning",
        ).model_copy(update=reachable(lender))
        database = open_database(url)
        stack.callback(database.close)
        worker = stack.enter_context(_running(settings))
        explainer = RemoteExplainer([worker.url], KEY)
        app = create_app(settings, database, explainer, Bell())
        address = stack.enter_context(serving(app, explainer.close))
        site = Site(address, app.state.resources, worker, lender, saved)
        stack.callback(site.client.close)
        yield site


@contextmanager
def _running(settings: Settings) -> Iterator[Worker]:
    worker = Worker(settings)
    try:
        yield worker
    finally:
        worker.end(signal.SIGKILL)


def test_a_version_that_becomes_active_is_loaded_before_anybody_asks(site: Site) -> None:
    """It was published when the worker ran already."""
    headers = {remote.KEY_HEADER: KEY, remote.VERSION_HEADER: remote.VERSION}
    wait_until(lambda: httpx.get(site.worker.url + "/state", headers=headers, timeout=BOUND).json()["versions"] == 1)
    assert site.seen == 0, "and nobody was asked"


def test_an_api_of_another_release_is_refused_in_words(
    site: Site, lending: Lending, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = site.task(lending)
    monkeypatch.setattr(remote, "VERSION", "1")

    async def send() -> None:
        explainer = RemoteExplainer([site.worker.url], KEY)
        with pytest.raises(UnavailableError, match=r"speaks version 1 .* version 3: run both from the same release"):
            await explainer.explain(task)
        state = await explainer.state()
        assert not state.ready and state.reason is not None and "from the same release" in state.reason
        await explainer.close()

    asyncio.run(send())


def test_operations(site: Site) -> None:
    assert site.worker.answers("/livez")
    assert httpx.get(site.worker.url + "/state", timeout=BOUND).status_code == 401
    assert "recourse_batch_records" in httpx.get(site.worker.url + "/metrics", timeout=BOUND).text
    assert httpx.head(site.worker.url + "/livez", timeout=BOUND).status_code == 200
    assert httpx.get(site.worker.url + "/nothing", timeout=BOUND).status_code == 404
    assert httpx.get(site.worker.url + "/explain", timeout=BOUND).status_code == 405


def test_an_order_with_queries_runs_once_and_only_with_the_key(site: Site, lending: Lending) -> None:
    task = site.task(lending, max_queries=2)

    async def send() -> None:
        explainer = RemoteExplainer([site.worker.url], KEY)
        stranger = RemoteExplainer([site.worker.url], "guessed")
        before = site.seen
        with pytest.raises(UnavailableError, match="key"):
            await stranger.explain(task)
        assert site.seen == before
        first = await explainer.explain(task)
        assert first.records[0].queries > 0
        with pytest.raises(ConflictError, match="already"):
            await explainer.explain(task)
        free = site.task(lending)
        assert await explainer.explain(free) == await explainer.explain(free)
        state = await explainer.state()
        assert (state.ready, state.workers) == (True, 1)
        await explainer.close()
        await stranger.close()

    asyncio.run(send())


def test_killed_under_load(site: Site, lending: Lending) -> None:
    """Whoever asks gets the right answer or a clear 503, and the lender saw no more than was charged."""
    expected: dict[int, object] = {}
    statuses: list[int] = []
    done = Event()

    def ask(start: int) -> None:
        while not done.is_set():
            response = site.explain(lending, start % 40)
            if response.status_code == 200:
                # What was charged differs: answers that were bought before are free.
                own = ("id", "charged")
                found = [{k: v for k, v in one.items() if k not in own} for one in response.json()["explanations"]]
                assert expected.setdefault(start % 40, found) == found
            else:
                assert response.status_code == 503, response.text
                assert response.headers["Retry-After"]
                done.wait(0.5)
            statuses.append(response.status_code)
            start += 6

    def wait_for_answers(clients: list["Future[None]"]) -> None:
        wanted = statuses.count(200) + ANSWERS
        wait_until(lambda: statuses.count(200) >= wanted or any(one.done() for one in clients))

    with ThreadPoolExecutor(6) as pool:
        clients = [pool.submit(ask, start) for start in range(6)]
        try:
            for _ in range(KILLS):
                wait_for_answers(clients)
                site.worker.end(signal.SIGKILL)
                site.worker.start()
            wait_for_answers(clients)
        finally:
            done.set()
        for one in clients:
            one.result()
    assert 503 in statuses
    owner = (site.tenant_id, site.ensemble_id)
    # As if a quarter of an hour had passed: what the killed ones held expires, and is charged.
    chain_key = ChainKey(site.resources.keyring.ledger_secret)
    Ledger(site.resources.database, chain_key, clock=lambda: utc_now() + timedelta(hours=1)).expire()
    balance = site.resources.ledger.balance(*owner)
    assert balance.reserved == 0
    # Only what was dispatched in the very moment of a kill may have been charged without being seen.
    assert site.seen <= balance.used <= site.seen + KILLS * 4 * 64


def test_what_is_in_flight_is_finished(site: Site, lending: Lending) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(site.explain, lending, 0, 60)
        pending = "recourse_explain_pending_records 60.0"
        wait_until(lambda: asked.done() or pending in httpx.get(site.worker.url + "/metrics", timeout=BOUND).text)
        assert not asked.done()
        assert site.worker.end(signal.SIGTERM) == 0
        assert asked.result().status_code == 200
    assert site.explain(lending, 0).status_code == 503
