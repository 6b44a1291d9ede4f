"""`recourse demo`: the whole service with made-up loans, from nothing to a dashboard.

The service is a child process, and a client does what a lender would: upload, train, explain, look at the budget.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from app.artifacts import keep_private
from app.auth.service import ADMIN_FILE
from app.commands.console import answers, notes
from app.commands.explain import ask, open_client, report_table
from app.errors import ServiceError
from app.explain.contract import ExplainOptions, RobustnessBody
from app.settings import Settings
from models.data.frames import plain_values
from models.data.records import Value
from models.errors import ConfigError
from recourse_client.client import ENDED, RecourseClient
from recourse_client.types import Job, JobSummary

MODEL, TARGET = "loans", "approved"
APPLICANTS, QUERIES = 3, 10
START_SECONDS = 300.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PHASES = {
    "data": "reading the table",
    "ensemble": "training the lender's seven models",
    "surrogate": "learning to imitate them",
    "generator": "learning ways to a yes",
    "distill": "asking the lender's models",
    "measure": "measuring",
    "publish": "publishing",
}


def demo(
    port: Annotated[int, typer.Option(help="The port to serve on.", min=1, max=65535)] = 8000,
    once: Annotated[bool, typer.Option("--once", help="End when everything was shown, instead of staying up.")] = False,
    effort: Annotated[float, typer.Option(help="How long to train, as a multiple of the usual.", min=0.01)] = 0.3,
) -> None:
    """Serve, train on made-up loans, explain refused applicants, and show where to look."""
    try:
        _run(port, once, effort)
    except KeyboardInterrupt:
        notes().print("Stopped. What was trained so far is kept; the next demo goes on with it.")
        raise typer.Exit(130) from None


def _run(port: int, once: bool, effort: float) -> None:
    settings, console = Settings(), notes()
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    if not settings.embedded or settings.database_url is not None:
        raise ConfigError("the demo runs all in one place: unset RECOURSE_DATABASE_URL, _REDIS_URL and _EXPLAINER_URL")
    with _service(settings, port, console) as (url, child):
        with open_client(url, _key(settings)) as client:
            if not any(model.name == MODEL and model.active_version for model in client.models().items):
                _train(client, effort, console)
            _explain(client)
            _tell_budget(client)
        _tell_address(url, settings)
        if not once:
            try:
                notes().print("\nCtrl-C ends it.")
                child.wait()
            except KeyboardInterrupt:
                notes().print("Stopping.")


def _interrupt(number: int, frame: object) -> None:
    """Treat a kill, or a lost terminal, like Ctrl-C: the service must not outlive this process."""
    raise KeyboardInterrupt


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """An interruption that comes meanwhile waits until the end: a child that we know not yet could not be ended."""
    came: list[int] = []
    before = [signal.signal(number, lambda number, frame: came.append(number)) for number in SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


@contextmanager
def _service(settings: Settings, port: int, console: Console) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """`recourse serve` in a process of its own, which a Ctrl-C reaches only through us."""
    _check_free(port)
    keep_private(settings)
    log = settings.var_dir / "demo.log"
    command = [sys.executable, "-c", "from app.cli import main; main()", "serve", "--port", str(port)]
    url, child = f"http://127.0.0.1:{port}", None
    try:
        with log.open("wb") as file, _uninterrupted():
            child = subprocess.Popen(command, stdout=file, stderr=file, env=os.environ, start_new_session=True)
        with console.status("starting the service"):
            _wait(url, child, log)
        yield url, child
    finally:
        if child is not None:
            child.terminate()
            child.wait()


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise ConfigError(f"something serves on port {port} already: end it, or choose another with --port")


def _wait(url: str, child: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    with RecourseClient(url, "none", seconds=5.0) as client:
        while not client.ready():
            if child.poll() is not None or time.monotonic() > end:
                raise ServiceError(f"the service did not start: see {log}")
            time.sleep(0.2)


def _key(settings: Settings) -> str:
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    return (settings.var_dir / ADMIN_FILE).read_text(encoding="utf-8").strip()


def _train(client: RecourseClient, effort: float, console: Console) -> None:
    begun = [job for job in client.jobs().items if job.model == MODEL and job.state not in ENDED]
    job = begun[0] if begun else _submit(client, effort, console)
    _follow(client, job, console)
    ended = client.job(job.id)
    if ended.state != "done":
        raise ServiceError(f"the training {ended.state}: {ended.error or 'see the page of the jobs'}")


def _submit(client: RecourseClient, effort: float, console: Console) -> Job:
    from models.datasets.loans import POLICY_FILE, loans

    data, policy = loans(), json.loads(POLICY_FILE.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "loans.csv"
        data.frame.to_csv(path, index=False)
        uploaded = client.upload(path, data.label)
    console.print(f"POST /datasets: {uploaded.rows} made-up applications. POST /train:")
    return client.train(MODEL, uploaded.id, {"overrides": dict(data.overrides), "policy": policy, "effort": effort})


def _follow(client: RecourseClient, job: JobSummary, console: Console) -> None:
    columns = (TextColumn("{task.description:<36}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        bar, phase = None, ""
        for event in client.follow(job.id):
            if event.kind != "progress":
                continue
            if event.data["phase"] != phase or bar is None:
                if bar is not None:
                    bars.update(bar, total=1, completed=1)
                phase = str(event.data["phase"])
                bar = bars.add_task(PHASES.get(phase, phase), total=None)
            bars.update(bar, total=event.data["steps"] or None, completed=event.data["step"])
        if bar is not None:
            bars.update(bar, total=1, completed=1)


def _explain(client: RecourseClient) -> None:
    options = ExplainOptions(target=TARGET, robustness=RobustnessBody(max_queries=QUERIES))
    report = ask(client, MODEL, refused_applicants(APPLICANTS), options)
    answers().print(report_table(report, "Applicant"))


def refused_applicants(count: int) -> list[dict[str, Value]]:
    """Applications that nothing was trained on, as a lender's system would send them."""
    from models.datasets.loans import loans

    data = loans(seed=1)
    refused = data.frame[data.frame[data.label] == "refused"].drop(columns=data.label).head(count)
    columns = {str(name): plain_values(refused[name]) for name in refused.columns}
    return [{name: _json_value(values[row]) for name, values in columns.items()} for row in range(len(refused))]


def _json_value(value: object) -> Value:
    if isinstance(value, float) and value == int(value):
        return int(value)
    assert value is None or isinstance(value, str | int | float)
    return value


def _tell_budget(client: RecourseClient) -> None:
    for budget in client.budgets().items:
        used = f"{budget.used:,} of {budget.limit:,} queries used, {budget.remaining:,} remain"
        answers().print(f"Budget of {budget.ensemble}: {used}.")


def _tell_address(url: str, settings: Settings) -> None:
    where = settings.var_dir / ADMIN_FILE if settings.admin_key is None else "RECOURSE_ADMIN_KEY"
    answers().print(f"\nDashboard: {url}/\nSign in with the admin key in {where}.", soft_wrap=True)
