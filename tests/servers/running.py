"""The service as an operator runs it, for the end-to-end test: alone, or with the command lines of the compose file.

Of the compose file everything is taken as it is, but where things are: containers have names, processes have ports.
RECOURSE_TEST_ROOTS names a folder with the root file systems of built images: then the commands run in these, with the
images' own Python (`make images`).
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

import httpx

from tests.patience import BOUND
from tests.servers.postgres import new_database, postgres_url
from tests.servers.redis import own_redis
from tests.system import compose

Mode: TypeAlias = Literal["embedded", "production"]
ROOTS = os.environ.get("RECOURSE_TEST_ROOTS")
USER_ID = 10001
VAR = "/var/lib/recourse"
"""Where the containers' folders are; two more begin with it."""
ADMIN_KEY = "rk_the-operator-chose-this-one"


@contextmanager
def running_service(mode: Mode, folder: Path) -> Iterator[httpx.Client]:
    """A client with the admin's key; at the end every process must have stopped by itself when it was told to."""
    running = _embedded if mode == "embedded" else _production
    with running(folder) as (port, key):
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=BOUND) as http:
            yield http


@contextmanager
def _embedded(folder: Path) -> Iterator[tuple[int, str]]:
    """`recourse serve` with nothing configured but its place."""
    port = free_port()
    environment = {"RECOURSE_VAR_DIR": str(folder / "var"), "RECOURSE_SERVE_PORT": str(port)}
    with process_of(["recourse", "serve"], environment) as api:
        wait_ready(port, api)
        yield port, (folder / "var" / "admin.key").read_text().strip()


@contextmanager
def _production(folder: Path) -> Iterator[tuple[int, str]]:
    """Postgres and Redis, then the containers' commands in the order of the compose file."""
    with ExitStack() as stack:
        server = stack.enter_context(postgres_url())
        database = stack.enter_context(new_database(server, f"recourse_{uuid4().hex}"))
        redis = stack.enter_context(own_redis())
        port, worker_port = free_port(), free_port()
        places = {
            "RECOURSE_EXPLAINER_URL": f"http://127.0.0.1:{worker_port}",
            "RECOURSE_EXPLAINER_HOST": "127.0.0.1",
            "RECOURSE_EXPLAINER_PORT": str(worker_port),
            "RECOURSE_SERVE_HOST": "127.0.0.1",
            "RECOURSE_SERVE_PORT": str(port),
        }
        given = {"RECOURSE_DATABASE_URL": database, "RECOURSE_REDIS_URL": redis.url}
        containers = {name: _container(name, places, given, folder) for name in ("secrets", "migrate", "api", "worker")}
        containers["api"].environment["RECOURSE_ADMIN_KEY"] = ADMIN_KEY
        for name in ("secrets", "migrate"):
            containers[name].run(containers[name].command())
        worker, api = (
            stack.enter_context(process_of(containers[name].command(), containers[name].environment))
            for name in ("worker", "api")
        )
        wait_ready(port, api, worker)
        for name in ("worker", "api"):
            containers[name].run([*containers[name].prefix, *compose.health_command_of(name)])
        yield port, ADMIN_KEY


@dataclass(frozen=True)
class _Container:
    """A service of the compose file as processes of this machine; `prefix` comes before its commands."""

    service: str
    environment: dict[str, str]
    folders: dict[str, str]
    prefix: tuple[str, ...]

    def command(self) -> list[str]:
        return [*self.prefix, *(self.folders.get(word, word) for word in compose.command_of(self.service))]

    def run(self, command: list[str]) -> None:
        """A command that does its work and ends."""
        environment = service_environment(self.environment)
        subprocess.run(command, env=environment, check=True, timeout=BOUND, cwd=compose.PROJECT)


def _container(service: str, places: Mapping[str, str], given: Mapping[str, str], folder: Path) -> _Container:
    """The container's environment with the places of this machine; each container has files of its own."""
    written = compose.environment_of(service, given)
    written |= {name: value for name, value in places.items() if name in written}
    own, shared, secrets = folder / service, folder / "artifacts", folder / "secrets"
    for path in (own, shared, secrets):
        path.mkdir(exist_ok=True)
    if ROOTS is None:
        folders = {VAR: str(own), f"{VAR}-artifacts": str(shared), f"{VAR}-secrets": str(secrets)}
        moved = {name: _moved(value, folders) for name, value in written.items()}
        return _Container(service, moved, folders, ())
    for path in (own, shared, secrets):
        os.chown(path, USER_ID, USER_ID)
    root = Path(ROOTS) / compose.services()[service]["build"]["target"]
    script = str(compose.PROJECT / "docker" / "in_root.sh")
    return _Container(service, written, {}, ("sh", script, str(root), str(shared), str(secrets), str(own)))


def _moved(value: str, folders: Mapping[str, str]) -> str:
    """A container's path as it is on this machine; any other value as it is."""
    for place, folder in folders.items():
        if value == place or value.startswith(f"{place}/"):
            return folder + value.removeprefix(place)
    return value


@contextmanager
def process_of(command: list[str], environment: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(command, env=service_environment(environment))
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(timeout=BOUND)
        finally:
            process.kill()
            process.wait()
    assert code == 0, f"{command} ended with {code}"


def service_environment(chosen: Mapping[str, str]) -> dict[str, str]:
    """Nothing of ours reaches the service from outside; `recourse` is the one that is tested."""
    names = [name for name in os.environ if not name.startswith("RECOURSE_")] if ROOTS is None else []
    outside = {name: os.environ[name] for name in names}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return outside | {"PATH": path, "OMP_NUM_THREADS": "1", "RECOURSE_LOG_LEVEL": "warning"} | dict(chosen)


def wait_ready(port: int, *processes: "subprocess.Popen[bytes]") -> None:
    """Until /readyz says so: database, queue, explainer and disk."""
    end, said = time.monotonic() + BOUND, "nothing"
    while time.monotonic() < end:
        assert all(process.poll() is None for process in processes), "a process ended before it was ready"
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=60.0)
            if answer.status_code == httpx.codes.OK:
                return
            said = answer.text
        except httpx.HTTPError as error:
            said = str(error)
        time.sleep(0.2)
    raise AssertionError(f"the service was not ready after {BOUND:g} s: {said}")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
