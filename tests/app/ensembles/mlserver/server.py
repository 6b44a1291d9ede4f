"""MLServer, a public server of the Open Inference Protocol v2, as a process of its own in an environment of its own."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket

import httpx

from tests.fakes.ensembles import MEMBERS
from tests.patience import BOUND

PROGRAM = Path(__file__).resolve().parents[4] / ".venv-mlserver" / "bin" / "mlserver"


@contextmanager
def mlserver(folder: Path) -> Iterator[int]:
    """MLServer with a model for each member and one, `all`, for all of them; its port on the loopback."""
    if not PROGRAM.exists():
        raise FileNotFoundError(f"{PROGRAM} is missing: run `make .venv-mlserver/.installed`")
    http_port, grpc_port, metrics_port = _free_ports(3)
    settings = {"host": "127.0.0.1", "http_port": http_port, "grpc_port": grpc_port, "metrics_port": metrics_port}
    (folder / "settings.json").write_text(json.dumps(settings | {"parallel_workers": 0, "debug": False}))
    for name in (*MEMBERS, "all"):
        (folder / name).mkdir()
        model = {"name": name, "implementation": "lender_runtime.LenderModel"}
        (folder / name / "model-settings.json").write_text(json.dumps(model))
        shutil.copy(Path(__file__).with_name("lender_runtime.py"), folder / name)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([PROGRAM, "start", folder], stdout=log, stderr=log, cwd=folder)
        try:
            _wait_until_ready(process, http_port, folder / "log")
            yield http_port
        finally:
            process.terminate()
            process.wait()


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    give_up = time.monotonic() + BOUND
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        while process.poll() is None and time.monotonic() < give_up:
            try:
                if client.get("/v2/models/all/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.2)
    raise RuntimeError(f"MLServer did not start:\n{log.read_text()[-3000:]}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket(AF_INET, SOCK_STREAM) for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
