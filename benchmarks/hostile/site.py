"""The service as an operator runs it, with one honest tenant and two hostile ones: real processes on the loopback.

`embedded` is `recourse serve` alone, on SQLite; `production` is Postgres, Redis, the API and a worker.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import httpx

from app.auth import queries
from app.auth.keyring import open_keyring
from app.db.engine import open_database
from app.db.tables import Role
from app.ensembles import directory
from app.ledger.balance import MOST_MAKER, MOST_REASON, Correction
from app.ledger.chain import ChainKey
from app.ledger.ledger import Ledger
from app.settings import Settings, environment_of
from benchmarks.hostile.lenders import WELL, lenders, registration
from benchmarks.hostile.watcher import Probe, with_children
from benchmarks.store import write_whole
from models.datasets.loans import loans
from tests.servers.postgres import new_database, postgres_url
from tests.servers.redis import own_redis
from tests.servers.running import free_port

Mode: TypeAlias = Literal["embedded", "production"]
MODES: tuple[Mode, ...] = ("embedded", "production")
RECOURSE = (sys.executable, "-c", "from app.cli import main; main()")
START_SECONDS, STOP_SECONDS = 240.0, 60.0
MODEL, FAST = "loans", "fast"
LENDERS = 40
SILENCE_SECONDS = 10.0
LEDGER_LINES = 3_000
"""Of a kilobyte each: more than the kernel's buffers take for a reader who does not read."""
HONEST, HOSTILE = "honest", ("mallory", "trudy")
Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Tenant:
    """A tenant, its keys by role, and a data set of loans."""

    name: str
    keys: dict[Role, str] = field(repr=False)
    dataset: str

    def headers(self, role: Role) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[role]}"}


class Processes:
    """The processes of the service by name; `pids` is a file that says which they are at the moment."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.pids = folder / "pids.json"
        self._folder, self._settings = folder, settings
        self._commands = dict[str, tuple[list[str], dict[str, str]]]()
        self._running = dict[str, subprocess.Popen[bytes]]()

    def run(self, command: list[str]) -> str:
        """The last line of what a command printed that does its work and ends."""
        done = subprocess.run([*RECOURSE, *command], env=self._environment(self._settings), stdout=subprocess.PIPE)
        return done.stdout.decode().rpartition("\n")[0].rpartition("\n")[2] or f"exit code {done.returncode}"

    def start(self, name: str, command: list[str], **changes: object) -> None:
        """Start one part of the service; `changes` of the settings are its own."""
        self._commands[name] = command, self._environment(self._settings.model_copy(update=changes))
        self._start(name)

    def kill(self, name: str) -> None:
        """SIGKILL: nothing is finished, nothing is said."""
        self._running[name].kill()
        self._running[name].wait()

    def start_again(self, name: str) -> None:
        """Start what was killed, with the same command."""
        self._start(name)

    def check(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                raise SystemExit(f"{name} ended with {process.returncode}: see {self._folder / f'{name}.log'}")

    def tree(self) -> list[int]:
        """All that run, with what they started."""
        return sorted(set(with_children(process.pid for process in self._running.values() if process.poll() is None)))

    def close(self) -> None:
        """End all of them; what is left of their children is killed."""
        tree = self.tree()
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in tree:
            if _is_ours(pid):
                os.kill(pid, signal.SIGKILL)

    def _start(self, name: str) -> None:
        command, environment = self._commands[name]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen([*RECOURSE, *command], env=environment, stdout=log, stderr=log)
        write_whole(self.pids, json.dumps([process.pid for process in self._running.values()]))

    def _environment(self, settings: Settings) -> dict[str, str]:
        """The settings; what else begins with RECOURSE_ does not reach the service from outside."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith("RECOURSE_")}
        return outside | environment_of(settings) | {"TMPDIR": str(self._folder)}


def _is_ours(pid: int) -> bool:
    """Whether a process that the service started is still there; its number may have gone to another one."""
    try:
        return b"worker." in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@dataclass(frozen=True, eq=False)
class Site:
    """A running service; `lenders` are the ports of forty lenders."""

    mode: Mode
    url: str
    processes: Processes
    settings: Settings
    honest: Tenant
    hostile: tuple[Tenant, Tenant]
    lenders: list[int]

    @property
    def address(self) -> tuple[str, int]:
        url = httpx.URL(self.url)
        return url.host, url.port or 80

    @contextmanager
    def client(self, tenant: Tenant, role: Role = Role.ADMIN, seconds: float = 60.0) -> Iterator[httpx.Client]:
        limits = httpx.Limits(max_connections=None)
        with httpx.Client(base_url=self.url, headers=tenant.headers(role), timeout=seconds, limits=limits) as http:
            yield http

    def probes(self) -> list[Probe]:
        """What an honest tenant does all the time."""
        frame = loans(rows=400, seed=5).frame
        refused = frame[frame["decision"] == "refused"].drop(columns="decision")
        records = json.loads(refused.to_json(orient="records"))
        shared = {"model": MODEL, "target": "approved", "robustness": {"min_agreement": 1.0, "max_queries": 2}}
        return [
            Probe("livez", "/livez", 0.1),
            Probe("readyz", "/readyz", 0.5),
            Probe("budgets", "/budgets", 0.25),
            Probe("explain", "/explain", 0.5, [json.dumps(shared | {"records": [one]}) for one in records]),
            Probe("predict", f"/ensembles/{FAST}/predict", 0.5, [_prediction(number) for number in range(2_000)]),
        ]


def _prediction(number: int) -> str:
    return json.dumps({"records": [{"amount": number / 1000}]})


@contextmanager
def running(mode: Mode, folder: Path) -> Iterator[Site]:
    """The service with all tenants, the honest one with a model of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        ports = stack.enter_context(lenders(LENDERS))
        settings = _settings(mode, folder, ports, stack)
        processes = Processes(folder, settings)
        if mode == "production":
            processes.run(["migrate"])
        stack.callback(processes.close)
        if mode == "production":
            processes.start("worker", ["worker"], var_dir=folder / "worker", explainer_url=None)
        processes.start("api", ["serve"])
        url = f"http://127.0.0.1:{settings.serve_port}"
        wait_ready(url, processes)
        honest, first, second = (_make_tenant(url, processes, name) for name in (HONEST, *HOSTILE))
        site = Site(mode, url, processes, settings, honest, (first, second), ports)
        _equip(site)
        yield site


def _settings(mode: Mode, folder: Path, ports: list[int], stack: ExitStack) -> Settings:
    """Of the API; the defaults, but for what must be said, and a short wait for a training that shows no life."""
    chosen: dict[str, Any] = {
        "var_dir": folder / "var",
        "serve_port": free_port(),
        "log_level": "warning",
        "blackbox_hosts": ",".join(f"127.0.0.1:{port}" for port in ports),
        "blackbox_networks": "127.0.0.0/8",
        "blackbox_plain_http": True,
        "job_silence_seconds": SILENCE_SECONDS,
    }
    if mode == "production":
        server, worker_port = stack.enter_context(postgres_url()), free_port()
        name = f"recourse_hostile_{uuid4().hex}"
        chosen |= {
            "database_url": stack.enter_context(new_database(server, name)),
            "redis_url": stack.enter_context(own_redis()).url,
            "key_secret": uuid4().hex,
            "worker_key": "between the API and its worker",
            "artifacts_url": str(folder / "artifacts"),
            "explainer_port": worker_port,
            "explainer_url": f"http://127.0.0.1:{worker_port}",
        }
    return Settings(**chosen)


def wait_ready(url: str, processes: Processes, seconds: float = START_SECONDS) -> None:
    """Until /readyz says so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        processes.check()
        try:
            if httpx.get(f"{url}/readyz", timeout=10).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"the service was not ready after {seconds:g} s")


def _make_tenant(url: str, processes: Processes, name: str) -> Tenant:
    keys = {Role.ADMIN: processes.run(["tenant", "add", name])}
    headers = {"Authorization": f"Bearer {keys[Role.ADMIN]}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
        for role in (Role.VIEWER, Role.CLIENT, Role.ANALYST):
            keys[role] = sent(http.post("/keys", json={"name": role.value, "role": role.value}), 201)["key"]
        table = {"file": ("loans.csv", loans(rows=200, seed=3).frame.to_csv(index=False))}
        dataset = sent(http.post("/datasets", files=table, data={"label": "decision"}), 201)
    return Tenant(name, keys, dataset["id"])


def _equip(site: Site) -> None:
    """A model and a fast lender of the honest tenant; one lender of each hostile one, whose budget fills a ledger."""
    for tenant, port in zip((site.honest, *site.hostile), site.lenders, strict=False):
        with site.client(tenant) as http:
            sent(http.post("/ensembles", json=registration(FAST, port, WELL)), 201)
    _fill_ledger(site, site.hostile[0])
    with site.client(site.honest) as http:
        job = sent(http.post("/train", json=order(site.honest, MODEL, 0.02, 12)), 202)
        wait_for_job(http, job["id"])


def _fill_ledger(site: Site, tenant: Tenant) -> None:
    """Many lines with long reasons, by the ledger itself, so that its chain holds."""
    with closing(open_database(site.settings.database)) as database:
        ledger = Ledger(database, ChainKey(open_keyring(site.settings, database).ledger_secret))
        tenant_id = database.read(queries.find_tenant, tenant.name)
        assert tenant_id is not None
        row = database.read(directory.find_ensemble, tenant_id, FAST)
        assert row is not None
        with database.writing() as connection:
            for number in range(LEDGER_LINES):
                correction = Correction(1 if number % 2 == 0 else -1, "x" * MOST_REASON, "x" * MOST_MAKER)
                ledger.correct(connection, tenant_id, row.id, correction)


def order(tenant: Tenant, model: str, effort: float, queries: int) -> Json:
    """The body of POST /train for a small training."""
    asked = {"members": ["knn", "forest"], "queries": queries, "effort": effort}
    return {"model": model, "dataset": tenant.dataset, "overrides": loans(rows=10).overrides} | asked


def wait_for_job(http: httpx.Client, job_id: str) -> None:
    end = time.monotonic() + START_SECONDS
    while (job := sent(http.get(f"/jobs/{job_id}")))["state"] in ("queued", "running"):
        if time.monotonic() > end:
            raise SystemExit("the first training did not end")
        time.sleep(0.2)
    if job["state"] != "done":
        raise SystemExit(f"the first training is {job['state']}: {job['error']}")


def sent(answer: httpx.Response, expected: int = 200) -> Json:
    """The answer's body, if the service said what was expected."""
    if answer.status_code != expected:
        raise SystemExit(f"{answer.request.method} {answer.request.url}: {answer.status_code}, {answer.text[:500]}")
    body: Json = answer.json()
    return body


@contextmanager
def scratch(given: Path | None) -> Iterator[Path]:
    """The folder of the run; one that was not given is gone afterwards."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="recourse-hostile-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
